// Where JSON goes wrong. Not every release of JSON.parse says it.

/** faultOf is the offset of the first character that is no JSON, -1 if there is none. */
export function faultOf(text) {
  const stack = [];
  let at = 0;
  let want = 'value'; // value, key, colon, or after
  const space = /[ \t\r\n]*/y;
  const token = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
  const skip = () => {
    space.lastIndex = at;
    space.exec(text);
    at = space.lastIndex;
  };
  for (skip(); ; skip()) {
    const c = text[at];
    if (c === undefined) return want === 'after' && stack.length === 0 ? -1 : at;
    if (want === 'after') {
      const open = stack.at(-1);
      if (c === ',' && open) want = open === '{' ? 'key' : 'value';
      else if ((c === '}' && open === '{') || (c === ']' && open === '[')) stack.pop();
      else return at;
      at++;
      if (c === ',') {
        skip();
        if (text[at] === '}' || text[at] === ']') return at;
      }
      continue;
    }
    if (want === 'colon') {
      if (c !== ':') return at;
      at++;
      want = 'value';
      continue;
    }
    if (want === 'key' && c !== '"') {
      if (c !== '}') return at;
      stack.pop();
      at++;
      want = 'after';
      continue;
    }
    if (c === '{' || c === '[') {
      stack.push(c);
      at++;
      want = c === '{' ? 'key' : 'value';
      skip();
      if (c === '[' && text[at] === ']') {
        stack.pop();
        at++;
        want = 'after';
      }
      continue;
    }
    token.lastIndex = at;
    if (!token.test(text)) return at;
    at = token.lastIndex;
    want = want === 'key' ? 'colon' : 'after';
  }
}

/** placeOf is an offset as "line 2, column 7". */
export function placeOf(text, at) {
  const before = text.slice(0, at);
  return `line ${before.split('\n').length}, column ${at - before.lastIndexOf('\n')}`;
}
