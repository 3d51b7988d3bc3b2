// Which pages are wanted: a number, a list of numbers, or text such as "1-3,7,20-".

import { fail } from './fail.js';

/** pageNumbers gives the numbers in the order asked for, each once. */
export function pageNumbers(wanted, total) {
  const numbers = new Set();
  const add = (n) => {
    if (!Number.isInteger(n) || n < 1 || n > total) {
      throw fail('PAGE_OUT_OF_RANGE', `page out of range: ${n} is none of the pages 1 to ${total}`);
    }
    numbers.add(n);
  };
  for (const part of Array.isArray(wanted) ? wanted : [wanted]) {
    if (typeof part === 'number') add(part);
    else for (const [from, to] of ranges(part, total)) {
      add(from);
      add(to);
      for (let n = from; n <= to; n++) numbers.add(n);
    }
  }
  return [...numbers];
}

function* ranges(text, total) {
  for (const piece of String(text).split(',')) {
    const found = /^\s*(\d{0,9})\s*(-?)\s*(\d{0,9})\s*$/.exec(piece);
    if (!found || (found[1] === '' && found[3] === '')) {
      throw fail('INVALID_PARAMETERS', `invalid parameters: ${JSON.stringify(piece.trim())} in pages is no page and no range; use forms such as "3", "2-5" or "10-"`);
    }
    const from = found[1] === '' ? 1 : Number(found[1]);
    const to = found[2] === '' ? from : found[3] === '' ? total : Number(found[3]);
    if (to < from) throw fail('INVALID_PARAMETERS', `invalid parameters: the range ${JSON.stringify(piece.trim())} in pages runs backwards`);
    yield [from, to];
  }
}
