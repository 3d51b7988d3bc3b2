# What failed, out of the output of `go test -v ./...`: for each failed test the
# last lines that it printed, then its verdict. The packages follow one another.
/^=== (RUN|NAME|CONT|PAUSE)/ { test = $3; next }
/^ *--- (PASS|SKIP): / { next }
/^ *--- FAIL: / { verdict = $0; sub(/^ */, ""); failed[++n] = $3; said[n] = verdict; next }
/^(ok|FAIL|\?)[ \t]/ {
  for (i = 1; i <= n; i++) {
    name = failed[i]
    for (k = (count[name] > 25 ? count[name] - 25 : 0) + 1; k <= count[name]; k++) print "  " line[name, k]
    print said[i]
  }
  if ($1 == "FAIL") print
  n = loud = 0; test = ""
  delete line; delete count; delete failed; delete said
  next
}
/^(panic: |fatal error: )/ { loud = 25 }
loud > 0 { loud--; print; next }
{ line[test, ++count[test]] = substr($0, 1, 400) }
