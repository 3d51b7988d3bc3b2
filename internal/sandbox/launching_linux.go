//go:build amd64 || arm64

package sandbox

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// launching is one launch on its way.
type launching struct {
	sandbox  *Sandbox
	cmd      *Cmd
	measured *measured
	tree     *tree

	key    string     // of the footing; "" where the variant has none
	waited bool       // the footing was made ahead
	unread bool       // and its init has ended before it read what to run
	files  []*os.File // to be closed at the end
}

// run launches the command and waits until it runs.
func (l *launching) run(ctx context.Context, probing bool) (*local, error) {
	s, cmd, m := l.sandbox, l.cmd, l.measured
	net, err := s.newNetwork(cmd)
	if err != nil {
		return nil, err
	}
	base, err := l.footing(net)
	if err != nil {
		return nil, tool.Errorf(tool.Internal, "starting the sandbox: %v", err)
	}
	if l.key != "" && !probing && !s.config.Once {
		s.prepare(m, l.tree, cmd.Profile, l.key)
	}
	meter, extras, err := l.meter(base)
	if err != nil {
		return nil, tool.Errorf(tool.SandboxUnavailable, "making a cgroup: %v", err)
	}
	b := m.builder(&cmd.Profile, l.tree)
	b.groupFiles, b.network = len(extras), net
	b.join(meter)
	if cmd.Control != nil {
		b.park()
		extras = append(extras, cmd.Control)
	}
	b.watchTmp = meter.walk || cmd.Profile.Disk > 0 || cmd.Profile.Inodes > 0
	m.build(b, cmd, probing)
	p := &local{
		sandbox: s, profile: cmd.Profile, meta: m.meta(), meter: meter, tmp: l.tree.tmp, network: net,
		ended: make(chan struct{}), gone: make(chan struct{}), began: time.Now(),
	}
	p.programs = [2]*program{b.program, b.program}
	if p.guard, err = newGuard(l.tree, m.variant.level); err == nil {
		p.quota, err = newQuota(l.tree, &cmd.Profile)
	}
	if err == nil {
		err = l.send(p, base, extras)
	} else if base != nil {
		base.end()
	}
	if err == nil {
		err = p.start(ctx, cmd)
	}
	l.unread = err != nil && l.waited && p.unread
	if err != nil {
		p.letGo()
		s.groups.give(meter.group)
		return nil, err
	}
	return p, nil
}

// footing is what the command will stand on: one that waits, or a new one.
func (l *launching) footing(net *network) (*footing, error) {
	s, m := l.sandbox, l.measured
	if !m.variant.staged() {
		return nil, nil
	}
	if net == nil { // a network is one command's own
		l.key = m.footingKey(&l.cmd.Profile, l.tree)
	}
	if l.key != "" && !l.unread {
		if f := s.ahead.take(l.key); f != nil {
			l.waited = true
			return f, nil
		}
	}
	l.waited = false
	group, err := s.bornIn(m)
	if err != nil {
		return nil, err
	}
	f, err := s.footing(m, &l.cmd.Profile, l.tree, group, net)
	if err != nil {
		s.groups.give(group)
	}
	return f, err
}

// meter gives the command its group. The files are those by which it joins.
func (l *launching) meter(base *footing) (*meter, []*os.File, error) {
	s := l.sandbox
	if base == nil {
		meter, files, err := s.newMeter(l.measured.groups, &l.cmd.Profile, nil)
		l.files = files
		return meter, files, err
	}
	meter, files, err := s.newMeter(l.measured.groups, &l.cmd.Profile, base.group)
	l.files = files
	if err != nil {
		base.drop()
	}
	return meter, files, err
}

// send gives the program to a launcher, or to the init of a footing.
func (l *launching) send(p *local, base *footing, extras []*os.File) error {
	var err error
	program := p.programs[1].encode()
	if base == nil {
		if p.control, err = l.sandbox.launcher.launch(l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr, extras); err != nil {
			return tool.Errorf(tool.Internal, "starting the sandbox: %v", err)
		}
		_, p.sendErr = p.control.Write(program)
		return nil
	}
	p.control, p.init, p.programs[0] = base.control, base.init, base.program
	files, null, err := orNull(nil, l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr)
	if err != nil {
		base.end()
		return tool.Errorf(tool.Internal, "starting the sandbox: %v", err)
	}
	defer null.Close()
	p.sendErr = base.next(append(files, extras...), program)
	return nil
}

// start waits until the command runs and watches it from then on.
func (p *local) start(ctx context.Context, cmd *Cmd) error {
	err := p.await(cmd)
	if err == nil && p.sendErr != nil {
		err = tool.Errorf(tool.Internal, "sending the sandbox its program: %v", p.sendErr)
	}
	if err != nil {
		if p.init != nil {
			_ = p.init.Signal(syscall.SIGKILL)
			_, _, _ = p.init.Wait()
		}
		p.network.close()
		p.control.Close()
		return err
	}
	p.stops = append(p.stops, context.AfterFunc(ctx, func() { p.Kill(EndKilled) }))
	if wall := p.profile.Wall; wall > 0 {
		timer := time.AfterFunc(wall-time.Since(p.began), func() { p.Kill(EndWall) })
		p.stops = append(p.stops, timer.Stop)
	}
	p.mu.Lock()
	p.clock = time.AfterFunc(p.meter.interval(), p.check)
	p.mu.Unlock()
	p.quota.begin(p.init.PID, p.meter.tmp, func() { p.Kill(EndDisk) })
	go p.watch()
	return nil
}
