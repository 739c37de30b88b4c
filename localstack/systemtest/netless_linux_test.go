package systemtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"
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

// demoCommand returns the demo in a network of its own that has nothing but
// loopback; or, where the machine lets nobody make one, as it runs there.
func demoCommand(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alone := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	trial := exec.CommandContext(t.Context(), "true")
	trial.SysProcAttr = alone
	if err := trial.Run(); err != nil {
		t.Logf("this machine lets nobody make a network of their own: %v", err)
		return exec.CommandContext(t.Context(), program(t), "demo", "--json")
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.SysProcAttr = []string{envNetless + "=" + program(t)}, alone
	return cmd
}
