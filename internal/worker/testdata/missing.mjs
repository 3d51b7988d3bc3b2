import 'no-such-package-anywhere'; export default {}
