// Makes PDF files for the tests, byte by byte (ISO 32000-1).

import { createHash } from 'node:crypto';

const escaped = (text) => text.replace(/[\\()]/g, '\\$&');

/**
 * pdf gives a file. pages: [{text: [lines], image: {width, height, rgb}, chinese: 'text'}];
 * info: {Title: …}; count: what the page tree claims; password: encrypts with RC4, 40 bits.
 */
export function pdf({ pages = [{}], info = {}, count = pages.length, password } = {}) {
  const objects = []; // [body, stream?]
  const add = (body, stream) => objects.push([body, stream]);
  const first = 4;
  add('<</Type/Catalog/Pages 2 0 R>>');
  const kids = pages.map((_, i) => `${first + i * 3} 0 R`).join(' ');
  add(`<</Type/Pages/Count ${count}/Kids[${kids}]>>`);
  add('<<>>');
  for (const [i, page] of pages.entries()) {
    const id = first + i * 3;
    const { text = [], image, chinese } = page;
    const xobject = image ? `/XObject<</Im0 ${id + 2} 0 R>>` : '';
    add(`<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents ${id + 1} 0 R/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>${chinese ? '/C1 ' + chineseFont : ''}>>${xobject}>>>>`);
    const lines = text.map((line, n) => `BT /F1 12 Tf 50 ${750 - n * 20} Td (${escaped(line)}) Tj ET`);
    if (chinese) lines.push(`BT /C1 12 Tf 50 400 Td <${Buffer.from(chinese, 'utf16le').swap16().toString('hex')}> Tj ET`);
    if (image) lines.push('q 100 0 0 100 50 500 cm /Im0 Do Q', 'q 50 0 0 50 250 500 cm /Im0 Do Q');
    add('<<', Buffer.from(lines.join('\n'), 'latin1'));
    if (image) add(`<</Type/XObject/Subtype/Image/Width ${image.width}/Height ${image.height}/ColorSpace/DeviceRGB/BitsPerComponent 8`, Buffer.from(image.rgb));
    else add('<<', Buffer.alloc(0));
  }
  const title = Object.entries(info);
  const infoId = objects.length + 1;
  add(null);
  const key = password === undefined ? undefined : encryption(password);
  objects[infoId - 1][0] = `<<${title.map(([k, v]) => `/${k}${key ? `<${rc4(objectKey(key, infoId), Buffer.from(v, 'latin1')).toString('hex')}>` : `(${escaped(v)})`}`).join('')}>>`;
  if (key) add(`<</Filter/Standard/V 1/R 2/O<${key.o.toString('hex')}>/U<${key.u.toString('hex')}>/P -4>>`);

  const out = [Buffer.from('%PDF-1.4\n%\xe2\xe3\xcf\xd3\n', 'latin1')];
  let at = out[0].length;
  const put = (data) => {
    const bytes = Buffer.from(data, 'latin1');
    out.push(bytes);
    at += bytes.length;
  };
  const offsets = [];
  for (const [i, [body, stream]] of objects.entries()) {
    offsets.push(at);
    put(`${i + 1} 0 obj\n`);
    if (stream === undefined) put(body);
    else {
      const data = key ? rc4(objectKey(key, i + 1), stream) : stream;
      put(`${body}/Length ${data.length}>>\nstream\n`);
      put(data);
      put('\nendstream');
    }
    put('\nendobj\n');
  }
  const xref = at;
  put(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${offsets.map((o) => `${String(o).padStart(10, '0')} 00000 n \n`).join('')}`);
  put(`trailer\n<</Size ${objects.length + 1}/Root 1 0 R/Info ${infoId} 0 R${key ? `/Encrypt ${objects.length} 0 R/ID[<${ID.toString('hex')}><${ID.toString('hex')}>]` : ''}>>\nstartxref\n${xref}\n%%EOF\n`);
  return Buffer.concat(out);
}

const chineseFont = '<</Type/Font/Subtype/Type0/BaseFont/STSong-Light/Encoding/UniGB-UCS2-H/DescendantFonts[<</Type/Font/Subtype/CIDFontType0/BaseFont/STSong-Light/CIDSystemInfo<</Registry(Adobe)/Ordering(GB1)/Supplement 2>>/FontDescriptor<</Type/FontDescriptor/FontName/STSong-Light/Flags 4/FontBBox[0 -200 1000 900]/ItalicAngle 0/Ascent 800/Descent -200/CapHeight 700/StemV 80>>>>]>>';

// The standard security handler, revision 2 (ISO 32000-1, 7.6.3).
const ID = Buffer.from('0123456789abcdef0123456789abcdef', 'hex');
const PAD = Buffer.from('28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a', 'hex');
const md5 = (...parts) => createHash('md5').update(Buffer.concat(parts)).digest();
const padded = (password) => Buffer.concat([Buffer.from(password, 'latin1'), PAD]).subarray(0, 32);

function encryption(password) {
  const o = rc4(md5(padded(password)).subarray(0, 5), padded(password));
  const key = md5(padded(password), o, Buffer.from([0xfc, 0xff, 0xff, 0xff]), ID).subarray(0, 5);
  return { o, key, u: rc4(key, PAD) };
}

function objectKey({ key }, id) {
  return md5(key, Buffer.from([id & 255, id >> 8, 0, 0, 0])).subarray(0, 10);
}

function rc4(key, data) {
  const s = Uint8Array.from({ length: 256 }, (_, i) => i);
  for (let i = 0, j = 0; i < 256; i++) {
    j = (j + s[i] + key[i % key.length]) & 255;
    [s[i], s[j]] = [s[j], s[i]];
  }
  let i = 0, j = 0;
  return Buffer.from(data).map((byte) => {
    i = (i + 1) & 255;
    j = (j + s[i]) & 255;
    [s[i], s[j]] = [s[j], s[i]];
    return byte ^ s[(s[i] + s[j]) & 255];
  });
}
