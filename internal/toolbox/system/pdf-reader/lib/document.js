// What pdf.js makes of the bytes: a document, its pages' text and images.

import { createRequire } from 'node:module';
import path from 'node:path';
import { fail } from './fail.js';

const MAX_PIXELS = 25e6; // of one image, 100 MB decoded; a larger one is left out by pdf.js

/** open gives a document. The caller calls its destroy. */
export async function open(pdfjs, bytes, { password, name, toolDir }) {
  if (bytes.length === 0) throw fail('INVALID_PDF', `invalid pdf: ${name} is empty (0 bytes)`);
  if (!Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 1024)).includes('%PDF-')) {
    throw fail('INVALID_PDF', `invalid pdf: ${name} does not begin like a PDF file`);
  }
  const assets = folderOf(toolDir);
  const task = pdfjs.getDocument({
    data: bytes,
    password,
    verbosity: pdfjs.VerbosityLevel.ERRORS,
    cMapUrl: path.join(assets, 'cmaps', path.sep),
    cMapPacked: true,
    standardFontDataUrl: path.join(assets, 'standard_fonts', path.sep),
    wasmUrl: path.join(assets, 'wasm', path.sep),
    isEvalSupported: false, // nothing in a file becomes code
    enableXfa: false,
    useSystemFonts: false,
    disableFontFace: true,
    isOffscreenCanvasSupported: false,
    isImageDecoderSupported: false,
    maxImageSize: MAX_PIXELS,
    stopAtErrors: false,
  });
  try {
    const doc = await task.promise;
    if (!(doc.numPages >= 1)) throw fail('INVALID_PDF', `invalid pdf: ${name} has no pages`);
    return { doc, destroy: () => task.destroy() };
  } catch (error) {
    await task.destroy();
    if (error.name === 'PasswordException') {
      throw error.code === pdfjs.PasswordResponses.INCORRECT_PASSWORD && password
        ? fail('WRONG_PASSWORD', `wrong password: the password given does not open ${name}`, error)
        : fail('PDF_ENCRYPTED', `encrypted pdf: ${name} needs a password`, error);
    }
    if (error.code === 'INVALID_PDF') throw error;
    throw fail('INVALID_PDF', `invalid pdf: ${name} is broken (${error.message})`, error);
  }
}

// folderOf finds the package of pdf.js: from this file, or where the tool is installed.
function folderOf(toolDir) {
  const places = [import.meta.url, ...(toolDir ? [path.join(toolDir, 'package.json')] : [])];
  for (const [i, place] of places.entries()) {
    try {
      return path.dirname(createRequire(place).resolve('pdfjs-dist/package.json'));
    } catch (error) {
      if (i === places.length - 1) throw fail('DEPENDENCY_MISSING', 'dependency missing: pdfjs-dist is not installed in the tool\'s folder', error);
    }
  }
}

/** information is what the file says of itself. */
export async function information(doc) {
  const { info = {}, metadata } = await doc.getMetadata();
  const text = (v) => (typeof v === 'string' && v.trim() !== '' ? v : null);
  return {
    totalPages: doc.numPages,
    title: text(info.Title) ?? text(metadata?.get('dc:title')),
    author: text(info.Author) ?? text([metadata?.get('dc:creator')].flat().filter(Boolean).join(', ')),
    subject: text(info.Subject),
    keywords: text(info.Keywords),
    creator: text(info.Creator),
    producer: text(info.Producer),
    createdAt: date(info.CreationDate),
    modifiedAt: date(info.ModDate),
    pdfVersion: text(info.PDFFormatVersion),
    encrypted: Boolean(info.EncryptFilterName),
    hasForm: Boolean(info.IsAcroFormPresent || info.IsXFAPresent),
  };
}

/** date reads "D:20240131120000+01'00'" (ISO 32000-1, 7.9.4) as an ISO date; what is no date is null. */
export function date(value) {
  const found = /^(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-])(\d\d)'?(\d\d)?'?)?/.exec(String(value ?? '').trim());
  if (!found) return null;
  const [, year, month = '01', day = '01', hour = '00', minute = '00', second = '00', , sign, offHour, offMinute = '00'] = found;
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}${sign ? `${sign}${offHour}:${offMinute}` : 'Z'}`;
  return Number.isNaN(Date.parse(iso)) ? null : iso;
}

/** textOf is the text of a page, a line feed where a line ends. */
export async function textOf(page) {
  const { items } = await page.getTextContent();
  let text = '';
  for (const item of items) {
    if (item.str === undefined) continue; // marked content
    text += item.str;
    if (item.hasEOL) text += '\n';
  }
  return text.replace(/[ \t]+$/gm, '').trim();
}

/** imagesOf hands each image of a page to see, in the order of drawing; one that is drawn twice comes once. */
export async function imagesOf(pdfjs, page, see) {
  const { fnArray, argsArray } = await page.getOperatorList();
  const { OPS } = pdfjs;
  const seen = new Set();
  for (const [i, op] of fnArray.entries()) {
    if (op === OPS.paintInlineImageXObject) {
      await see({ ...argsArray[i][0], inline: true });
    } else if (op === OPS.paintImageXObject || op === OPS.paintImageXObjectRepeat) {
      const [id] = argsArray[i];
      if (seen.has(id)) continue;
      seen.add(id);
      const image = await objectOf(id.startsWith('g_') ? page.commonObjs : page.objs, id);
      if (image) await see(image);
    }
  }
}

function objectOf(store, id) {
  return new Promise((resolve) => store.get(id, resolve));
}
