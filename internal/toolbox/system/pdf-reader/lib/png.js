// Writes what pdf.js decodes as PNG files (https://www.w3.org/TR/png/).

import { promisify } from 'node:util';
import zlib from 'node:zlib';

const deflate = promisify(zlib.deflate);
const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

// What pdf.js calls the kind of an image: bits of a pixel, and PNG's depth and colour type.
const KINDS = {
  1: { bits: 1, depth: 1, color: 0 },
  2: { bits: 24, depth: 8, color: 2 },
  3: { bits: 32, depth: 8, color: 6 },
};

/** png gives the bytes of a file, or undefined for data that is no image of a known kind. */
export async function png({ width, height, kind, data }) {
  const form = KINDS[kind];
  if (!form || !data || !(width > 0) || !(height > 0)) return undefined;
  const row = (width * form.bits + 7) >> 3;
  if (data.length < row * height) return undefined;
  const raw = Buffer.alloc((row + 1) * height); // each row begins with its filter, 0 for none
  for (let y = 0; y < height; y++) {
    raw.set(data.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = form.depth;
  header[9] = form.color;
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), chunk('IDAT', await deflate(raw, { level: 6 })), chunk('IEND', Buffer.alloc(0))]);
}

function chunk(type, data) {
  const out = Buffer.alloc(data.length + 12);
  out.writeUInt32BE(data.length, 0);
  out.write(type, 4, 'latin1');
  data.copy(out, 8);
  out.writeUInt32BE(crc(out.subarray(4, data.length + 8)), data.length + 8);
  return out;
}

const TABLE = new Uint32Array(256).map((_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

function crc(bytes) {
  let c = 0xffffffff;
  for (const b of bytes) c = TABLE[(c ^ b) & 0xff] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}
