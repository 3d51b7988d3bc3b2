package oauth

// Challenges shows what a header is read as: scheme and parameters.
func Challenges(lines []string) (schemes []string, parameters []map[string]string) {
	for _, c := range parseChallenges(lines) {
		schemes, parameters = append(schemes, c.scheme), append(parameters, c.params)
	}
	return schemes, parameters
}
