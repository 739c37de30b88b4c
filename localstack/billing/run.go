package billing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ReadyPrefix starts the line that [Run] prints once it serves; the base URL follows.
const ReadyPrefix = "ready "

// Config says how the service runs.
type Config struct {
	Listen          string           // loopback host:port; default 127.0.0.1:0
	DataFile        string           // required; made if absent; one process at a time
	Logger          *slog.Logger     // default: no logs; keys, bodies and tokens are never logged
	SessionLifetime time.Duration    // default one hour
	Now             func() time.Time // default time.Now; only sessions look at the clock
}

func (c Config) withDefaults() (Config, error) {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.SessionLifetime == 0 {
		c.SessionLifetime = time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.DataFile == "" {
		return c, errors.New("billing: config: DataFile is required")
	}
	if c.SessionLifetime < 0 {
		return c, errors.New("billing: config: SessionLifetime must not be negative")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return c, fmt.Errorf("billing: config: Listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return c, fmt.Errorf("billing: config: Listen is %s; this service has no real sign-in and serves loopback only", c.Listen)
	}
	return c, nil
}

// Run opens the data file, serves, prints "ready http://HOST:PORT" as one line
// to stdout, and returns when ctx has ended and the requests under way are
// answered; hanging ones are cut. What was answered before is on disk.
func Run(ctx context.Context, cfg Config, stdout io.Writer) (err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return err
	}
	store, err := openStore(cfg.DataFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	srv, err := newServer(store, cfg)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("billing: listening: %w", err)
	}
	// No ReadTimeout: it would cut a hanging answer short, and only loopback gets here.
	web := &http.Server{
		Handler:           srv.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // its end releases hanging requests
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	if _, err := fmt.Fprintf(stdout, "%shttp://%s\n", ReadyPrefix, listener.Addr()); err != nil {
		_ = web.Close()
		return fmt.Errorf("billing: announcing: %w", err)
	}
	select {
	case err := <-served:
		return fmt.Errorf("billing: serving: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := web.Shutdown(grace); err != nil {
		return fmt.Errorf("billing: stopping: %w", err)
	}
	return nil
}
