package policy

import "testing"

func TestSelfHarm(t *testing.T) {
	harmful := []string{
		"rm -rf /", "rm -fr /", "rm -r -f /", "rm -rf /*", "rm -rf  /", "rm / -rf", "rm --recursive --force /", "rm --rec -f /", "rm -rf -- /", "rm -rf //", "rm -rf /.", "rm -rf /./", "rm -rf /tmp/..", "rm -Rf '/'", "rm -rf \"/\"",
		"\\rm -rf /", "r''m -rf /", "/bin/rm -rf /", "$'rm' -rf /", "{rm,-rf,/}", "sudo rm -rf /", "sudo -n rm -rf /", "env rm -rf /", "nohup rm -rf / &", "timeout 5 rm -rf /", "sh -c 'rm -rf /'", "bash -c \"rm -rf /\"", "eval 'rm -rf /'", "eval rm -rf /",
		"ls; rm -rf /", "ls && rm -rf /", "true || rm -rf /", "echo $(rm -rf /)", "(rm -rf /)", "if true; then rm -rf /; fi", "xargs rm -rf /", "find . -exec rm -rf / \\;", "busybox rm -rf /", "strace rm -rf /", "bash <<< 'rm -rf /'", "bash <<EOF\nrm -rf /\nEOF", "echo 'rm -rf /' | sh", "trap 'rm -rf /' EXIT",
		"rm -rf ~", "rm -rf ~/", "rm -rf ~/*", "rm -rf $HOME", "rm -rf \"$HOME\"", "rm -rf ${HOME}", "rm -rf $HOME/", "rm -rf \"$HOME\"/*", "rm -rf /etc", "rm -rf /usr/", "rm -rf /home/*", "rm -rf x /", "rm -r --no-preserve-root x", "cd / && rm -rf *", "cd /; rm -rf .", "cd ~ && rm -rf ./*",
		"mkfs /dev/sda1", "mkfs.ext4 /dev/sda", "mkfs -t ext4 /dev/sda", "sudo mkfs.xfs -f /dev/vda", "mke2fs /dev/sda", "wipefs -a /dev/sda", "/sbin/mkfs.ext4 x",
		"dd if=a of=/dev/sda", "dd of=/dev/nvme0n1 if=a bs=1M", "dd if=/dev/zero of=file", "dd of=file if=/dev/urandom bs=1M", "dd if=/dev/zero of=/dev/sda count=1", "sudo dd if=x of=/dev/sdb",
		":(){ :|:& };:", ":(){ :|:&};:", "bomb() { bomb | bomb & }; bomb", "function f { f | f & }; f", "f(){ f & f; }; f", "bash -c ':(){ :|:& };:'", "f() { (f | f) & }; f", ": () { : | : & } ; :",
		"echo x > /dev/sda", "cat f > /dev/nvme0n1", "> /dev/sda", "echo x | tee /dev/sda", "cp f /dev/sda", "chmod -R 777 /", "chmod 777 -R /", "chmod --recursive 777 /", "chown -R me /", "chmod -R 000 /etc", "mv / /x", "mv /* /x", "mv ~ /dev/null", "mv /usr x", "find / -delete", "find /* -type f -delete",
	}
	for _, command := range harmful {
		if reason, ok := SelfHarm(command); !ok || reason == "" {
			t.Errorf("%q is not found harmful", command)
		}
	}
	fine := []string{
		"echo mkfs", "echo 'rm -rf /'", "echo rm -rf /", "grep 'rm -rf /' x", "grep -r mkfs .", "git commit -m 'rm -rf /'", "rm -rf x", "rm -rf ./x", "rm -rf /tmp/x", "rm -rf node_modules/*", "rm -rf *", "rm -rf .", "rm /", "rm -f /etc/x", "rm -rf /home/me/x", "rm -rf ~/x", "rm -rf $HOME/x", "rm -rf \"$HOME/x\"",
		"rm -rf $X", "ls /", "ls -R /", "cat /etc/passwd", "dd if=a of=b", "dd if=/dev/zero of=f count=1", "dd if=/dev/zero bs=1M count=1 of=f", "dd if=/dev/sda of=backup", "dd if=/dev/zero of=/dev/null", "dd if=/dev/urandom bs=1 count=8", "mkfs --help", "man mkfs", "which mkfs",
		"f() { f | g; }; f", "f() { g & }; f", "walk() { for d in *; do walk $d; done; }; walk", "echo x > /dev/null", "echo x >&2", "chmod -R 755 .", "chmod 777 /", "chmod -R 777 /tmp/x", "chown -R me ~/x", "mv a b", "mv /tmp/a /", "find / -name x", "find . -delete", "find / -name x -delete", "cd / && ls", "cat <<EOF\nrm -rf /\nEOF",
		"", "ls (", "python -c 'import os; os.system(\"rm -rf /\")'", "printf 'rm -rf /\\n' > script.sh", "cp -r / backup", "rsync -a / /backup", "tar -cf x.tar /",
	}
	for _, command := range fine {
		if reason, ok := SelfHarm(command); ok {
			t.Errorf("%q is found harmful: %s", command, reason)
		}
	}
}
