/** fail makes an error with a code; its text is what getBusinessErrors matches. */
export function fail(code, message, cause) {
  const error = new Error(message, cause === undefined ? undefined : { cause });
  error.code = code;
  return error;
}
