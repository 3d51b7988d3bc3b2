// The links in a text.

/** linksIn is the links of Markdown, HTML and plain text, each once: {url, text, type}. */
export function linksIn(text) {
  const found = new Map();
  const add = (url, words, type) => {
    const clean = url.trim().replace(/#.*$/, '');
    if (!clean || /^(#|mailto:|tel:|javascript:|data:)/i.test(clean) || found.has(clean)) return;
    found.set(clean, { url: clean, text: words.trim() || clean, type });
  };
  for (const [, words, url] of text.matchAll(/\[([^\]\n]{0,500})\]\(\s*<?([^()\s<>]{1,2000}(?:\([^()\s]{0,200}\)[^()\s<>]{0,2000})?)>?(?:\s+["'][^"'\n]{0,500}["'])?\s*\)/g)) add(url, words, 'markdown');
  for (const [, double, single, words] of text.matchAll(/<a\s[^>]{0,1000}?href\s*=\s*(?:"([^"]{1,2000})"|'([^']{1,2000})')[^>]{0,1000}>([^<]{0,500})/gi)) add(double ?? single, words, 'html');
  for (const [url] of text.matchAll(/\b(?:https?|file):\/\/[^\s<>"'`\])}，。；、]{1,2000}/g)) add(url.replace(/[.,;:!?]+$/, ''), '', 'direct');
  for (const [, url] of text.matchAll(/(?:^|[\s(["'])(\.\.?\/[^\s<>"'`)\]]{1,1000})/gm)) add(url.replace(/[.,;:!?]+$/, ''), '', 'relative');
  return [...found.values()];
}
