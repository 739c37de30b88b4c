package systemtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/onceward/onceward/localstack/stack"
)

// envNetless makes this program enter what it names, with nothing but loopback.
const envNetless = "ONCEWARD_TEST_NETLESS"

// init becomes the program that envNetless names, before anything else of this
// one runs: a process that was born into a network of its own has its loopback
// down, and only a process inside can put it up.
func init() {
	program := os.Getenv(envNetless)
	if program == "" {
		return
	}
	err := loopbackUp()
	if err == nil {
		err = syscall.Exec(program, []string{program, "demo", "--json"}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func loopbackUp() error {
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) != 1 {
		return fmt.Errorf("this network has the interfaces %v, %v", interfaces, err) //nolint:errorlint // err may be nil
	}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request := struct { // struct ifreq of netdevice(7)
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP}
	copy(request.name[:], "lo")
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errors.Join(errno, syscall.Close(socket))
	}
	return syscall.Close(socket)
}

// The demo runs where there is no network, with no account's keys and no
// database but the one that it brings along.
// Proves: R156
func TestDemoNeedsNoNetworkNoKeyAndNoDatabase(t *testing.T) {
	t.Parallel()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := stack.FindRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "localstack")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./localstack")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	demo := exec.CommandContext(t.Context(), self)
	demo.Dir = root
	demo.Env = []string{envNetless + "=" + program, "GOPROXY=off", "GOFLAGS=-mod=readonly"}
	for _, keep := range os.Environ() {
		name, _, _ := strings.Cut(keep, "=")
		if !strings.HasPrefix(name, "AWS_") && !strings.Contains(strings.ToUpper(name), "PROXY") && name != "GOFLAGS" {
			demo.Env = append(demo.Env, keep)
		}
	}
	demo.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	var said, logged bytes.Buffer
	demo.Stdout, demo.Stderr = &said, &logged
	if err := demo.Start(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this machine lets nobody make a network of their own: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := demo.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, logged.String())
	}
	var told struct {
		Summary struct {
			Stories       int `json:"stories"`
			OK            int `json:"ok"`
			DoubleEffects int `json:"double_effects"`
		} `json:"summary"`
	}
	if err := json.Unmarshal(said.Bytes(), &told); err != nil || told.Summary.Stories != 5 || told.Summary.OK != 5 || told.Summary.DoubleEffects != 0 {
		t.Errorf("%v: %s", err, said.String())
	}
}
