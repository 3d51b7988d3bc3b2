package deps

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// npm installs with the operator's npm.
func (i *Installer) npm(ctx context.Context, b *build) error {
	cache := filepath.Join(i.c.Cache, NPM)
	command := []string{b.program}
	if real, err := filepath.EvalSymlinks(b.program); err == nil && strings.HasSuffix(real, ".js") {
		node, err := i.program(ctx, "node")
		if err != nil {
			return err
		}
		command = []string{node, real}
	}
	verb := "install"
	if b.lock != nil && b.lock.fits {
		verb = "ci"
	}
	args := append(command, verb, "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--install-links", "--loglevel=warn",
		"--omit-lockfile-registry-resolved=false", // else a lockfile cannot be used offline
		"--cache="+cache)
	if b.req.Offline {
		args = append(args, "--offline")
	} else if verb == "ci" {
		args = append(args, "--prefer-offline") // the lockfile says all that the registry could
	}
	env := []string{"npm_config_update_notifier=false"}
	for _, r := range retries {
		env = append(env, "npm_config_"+r)
	}
	out, err := i.start(ctx, b, args, env, cache, nil)
	if err != nil {
		return err
	}
	if !out.ok() {
		return i.failure(ctx, b, out)
	}
	if verb == "install" {
		b.keep = packageLock
		if _, err := os.Lstat(filepath.Join(b.project, shrinkwrap)); err == nil {
			b.keep = shrinkwrap
		}
	}
	return nil
}

// bun installs with bun.
func (i *Installer) bun(ctx context.Context, b *build) error {
	cache := filepath.Join(i.c.Cache, Bun)
	args := []string{b.program, "install", "--ignore-scripts", "--omit=dev", "--no-progress", "--no-summary", "--no-env-file",
		"--linker=hoisted", "--backend=copyfile", "--cache-dir=" + cache, "--save-text-lockfile"}
	if b.req.Offline {
		args = append(args, "--offline")
	}
	out, err := i.start(ctx, b, args, []string{"BUN_INSTALL_CACHE_DIR=" + cache, "DO_NOT_TRACK=1"}, cache, nil)
	if err != nil {
		return err
	}
	if !out.ok() {
		return i.failure(ctx, b, out)
	}
	if _, err := os.Lstat(filepath.Join(b.project, bunLock)); err == nil {
		b.keep = bunLock
	}
	return nil
}
