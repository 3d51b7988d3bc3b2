// What Playwright's errors become.

import { fail } from './fail.js';

/** explain makes an error of this tool of one of Playwright's. doing is what was done, as "click #a". */
export function explain(error, doing) {
  if (typeof error?.code === 'string') return error; // ours, or the file system's: Playwright's have none
  const whole = plain(error);
  const first = whole.split('\n')[0].replace(/^[a-z]+\.[A-Za-z]+: /i, '');
  const net = /net::(ERR_[A-Z_]+)/.exec(whole)?.[1];
  if (net) return fail('NAVIGATION_FAILED', `navigation failed: ${doing}: ${REASONS[net] ?? 'the page could not be loaded'} (${net})`, error);
  if (/closed|crashed|disconnected/i.test(first) && /target|page|browser|context/i.test(first)) {
    return fail('BROWSER_GONE', `browser gone: ${doing}: the browser has ended; its page and logins are lost`, error);
  }
  if (/selector|querySelector|Unexpected token .* while parsing/i.test(first) && /pars|valid|unknown engine|Unsupported|SyntaxError/i.test(whole)) {
    return fail('INVALID_SELECTOR', `invalid selector: ${doing}: ${first}`, error);
  }
  if (error?.name === 'TimeoutError') {
    if (/strict mode|intercepts|not (visible|enabled|stable|editable)|is disabled/i.test(whole)) {
      return fail('ELEMENT_NOT_READY', `element not ready: ${doing}: ${reasonOf(whole)}`, error);
    }
    if (/waiting for (locator|selector)/i.test(whole)) return fail('ELEMENT_NOT_FOUND', `element not found: ${doing}: nothing on the page matches`, error);
    return fail('TIMEOUT', `timeout: ${doing}: ${first}`, error);
  }
  if (/strict mode violation/i.test(whole)) return fail('ELEMENT_NOT_READY', `element not ready: ${doing}: ${first}`, error);
  if (/Element is not an? |not an HTMLElement|cannot be filled/i.test(whole)) return fail('ELEMENT_NOT_READY', `element not ready: ${doing}: ${first}`, error);
  return fail('BROWSER_ERROR', `browser error: ${doing}: ${first}`, error);
}

/** plain is a message without colours. */
export function plain(error) {
  return String(error?.message ?? error).replace(/\x1b\[[0-9;]*m/g, '');
}

function reasonOf(text) {
  const line = text.split('\n').reverse().find((l) => /intercepts|not (visible|enabled|stable|editable)|is disabled|strict mode/i.test(l));
  return (line ?? '').replace(/^[\s\-\d×x]+/, '').trim() || 'it cannot be used';
}

const REASONS = {
  ERR_NAME_NOT_RESOLVED: 'the host is not known, or the network is not granted for it',
  ERR_CONNECTION_REFUSED: 'nothing listens there',
  ERR_CONNECTION_RESET: 'the connection was reset, or the network is not granted for that host',
  ERR_CONNECTION_CLOSED: 'the connection was closed, or the network is not granted for that host',
  ERR_EMPTY_RESPONSE: 'the server answered nothing',
  ERR_INTERNET_DISCONNECTED: 'there is no network: none is granted',
  ERR_NETWORK_CHANGED: 'the network changed',
  ERR_ADDRESS_UNREACHABLE: 'the address cannot be reached, or the network is not granted for it',
  ERR_CONNECTION_TIMED_OUT: 'the server did not answer',
  ERR_ABORTED: 'it is a download, which is refused, or the page was left',
  ERR_CERT_AUTHORITY_INVALID: 'the certificate is not trusted',
  ERR_TOO_MANY_REDIRECTS: 'the page redirects in a circle',
};
