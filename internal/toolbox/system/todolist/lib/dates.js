// Due dates: days without a time, in the time zone of the process.

import { fail } from './fail.js';

const DAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];
const CHINESE = '日一二三四五六';
const RELATIVE = {
  'today': 0, 'tomorrow': 1, 'yesterday': -1, 'next week': 7, '今天': 0, '明天': 1, '后天': 2, '後天': 2, '昨天': -1,
};

/** day is a Date as YYYY-MM-DD. */
export function day(date) {
  const two = (n) => String(n).padStart(2, '0');
  return `${String(date.getFullYear()).padStart(4, '0')}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** parse understands YYYY-MM-DD, a full ISO date, and a few words; null for an empty text. */
export function parse(text, now = new Date()) {
  const words = text.trim().toLowerCase().replace(/\s+/g, ' ');
  if (words === '') return null;
  const iso = /^(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[t ](.*))?$/.exec(words);
  if (iso) {
    const [year, month, date] = iso.slice(1, 4).map(Number);
    const found = new Date(year, month - 1, date);
    const real = found.getMonth() === month - 1 && found.getDate() === date && found.getFullYear() === year;
    const clock = iso[4] === undefined ? '' : iso[4];
    if (!real || (clock && Number.isNaN(Date.parse(`2000-01-01T${clock}`)))) throw unknown(text);
    // With a zone the day is the one that it is here at that moment.
    return clock && /(z|[+-]\d\d:?\d\d)$/.test(clock) ? day(new Date(`${day(found)}T${clock.toUpperCase()}`)) : day(found);
  }
  const after = (days) => day(new Date(now.getFullYear(), now.getMonth(), now.getDate() + days));
  if (Object.hasOwn(RELATIVE, words)) return after(RELATIVE[words]);
  const ahead = /^in (a|an|\d{1,4}) (day|week)s?$/.exec(words) ?? /^(\d{1,4})\s*(天|周)(?:后|後)$/.exec(words);
  if (ahead) return after((/^\d/.test(ahead[1]) ? Number(ahead[1]) : 1) * (/week|周/.test(ahead[2]) ? 7 : 1));
  const weekday = /^(next |on )?([a-z]+)$/.exec(words);
  const wanted = weekday ? DAYS.findIndex((name) => name === weekday[2] || name.slice(0, 3) === weekday[2]) : -1;
  const chinese = /^(?:周|星期|礼拜)([日天一二三四五六])$/.exec(words);
  const target = chinese ? CHINESE.indexOf(chinese[1].replace('天', '日')) : wanted;
  if (target >= 0) return after(((target - now.getDay() + 6) % 7) + 1);
  throw unknown(text);
}

function unknown(text) {
  return fail('INVALID_DATE_FORMAT', `date format of ${JSON.stringify(text)} is not understood, or there is no such day; give YYYY-MM-DD`);
}
