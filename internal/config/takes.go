package config

import "strings"

// Takes says in words what a setting takes, for its documentation.
func (k Key) Takes() string {
	switch k.kind {
	case word:
		return strings.Join(k.Words, ", ")
	case words:
		return "list of " + strings.Join(k.Words, ", ")
	case boolean:
		return "true or false"
	case integer, number:
		return "number"
	case duration:
		return "time"
	case size:
		return "size"
	case texts:
		return "list of texts"
	case paths:
		return "list of directories"
	case rules:
		return "list of rules"
	case hosts:
		return "list of hosts, or all"
	case servers:
		return "mapping of servers"
	case ranges:
		return "list of addresses and ranges"
	}
	return "text"
}
