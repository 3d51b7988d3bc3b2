# slug turns a title into the last part of an address.
slug() {
	printf '%s' "$1" |
		tr '[:upper:]' '[:lower:]' |
		tr -cs '[:alnum:]' '-' |
		sed -e 's/^-*//' -e 's/-*$//'
}
