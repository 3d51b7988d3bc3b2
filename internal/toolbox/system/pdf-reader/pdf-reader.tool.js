// Reads PDF files page by page.

import { createHash } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { imagesOf, information, open, textOf } from './lib/document.js';
import { fail } from './lib/fail.js';
import { pageNumbers } from './lib/pages.js';
import { png } from './lib/png.js';
import { bytesOf } from './lib/source.js';

const TEXT_LIMIT = 2 * 1024 * 1024; // characters of text in one result
const IMAGE_LIMIT = 200;            // images in one result
const KEPT = 10;                    // documents whose images stay in data/images

export default {
  getMetadata() {
    return {
      id: 'pdf-reader',
      name: 'PDF reader',
      description: 'Reads PDF files: number of pages, metadata, the text of chosen pages, and the images in them. Use it when a PDF has to be read or searched, a few pages at a time. Do not use it for other documents (file-reader) or to change a PDF; it does not recognise text in scanned pages.',
      version: '1.0.0',
      category: 'document',
      author: 'Toolyard',
      tags: ['pdf', 'document', 'text', 'images', 'pages'],
      scenarios: [
        'Find out how many pages a PDF has, and its title and author, before reading it',
        'Read the text of one page, of several, or of a range such as "10-20"',
        'Get the images of a page as PNG files',
        'Read a PDF that is protected by a password',
      ],
      limitations: [
        'Only files in the allowed directories; http and https addresses only if the network is granted',
        'Pages that are only pictures of text have no text (hasText is false)',
        'At most 100 MB a file, 2 million characters and 200 images a call; images over 25 megapixels are left out',
        'The order of the text is that of the file, which in tables and columns may not be that of reading',
      ],
    };
  },

  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          method: { type: 'string', enum: Object.keys(METHODS), description: 'read_pdf: metadata, and with pages their text. get_metadata: all that the file says of itself. list_images: the images of pages, without writing them.' },
          pdfPath: { type: 'string', minLength: 1, maxLength: 4096, description: 'The file: an absolute path, or one relative to the first allowed directory; or an http or https address.' },
          pages: {
            oneOf: [
              { type: 'integer', minimum: 1 },
              { type: 'array', items: { type: 'integer', minimum: 1 }, minItems: 1, maxItems: 5000 },
              { type: 'string', minLength: 1, maxLength: 1000 },
            ],
            description: 'Pages, from 1: a number, a list, or ranges as text ("1-3,7,20-"). Without it read_pdf gives only the metadata, and list_images looks at all pages.',
          },
          extractImages: { type: 'boolean', default: true, description: 'read_pdf: write the images of the pages as PNG files to data/images and name them.' },
          forceRefresh: { type: 'boolean', default: false, description: 'read_pdf: write images again that are there already.' },
          perPage: { type: 'boolean', default: false, description: 'read_pdf: give each page\'s text by itself instead of all in one.' },
          password: { type: 'string', format: 'password', maxLength: 1000, description: 'Opens an encrypted file.' },
        },
        required: ['method', 'pdfPath'],
        examples: [
          { method: 'read_pdf', pdfPath: 'lib/example.pdf', pages: '1-2' },
          { method: 'get_metadata', pdfPath: 'lib/example.pdf' },
        ],
      },
      environment: {
        type: 'object',
        properties: {
          ALLOWED_DIRECTORIES: { type: 'string', description: 'Directories whose files may be read: a JSON array, or separated by commas. Without it only the tool\'s own data/.' },
        },
        required: [],
      },
    };
  },

  getDependencies() {
    return {
      'pdfjs-dist': '5.4.624',
      ...Object.fromEntries(['document', 'fail', 'pages', 'png', 'source'].map((name) => [`./lib/${name}.js`, 'local'])),
    };
  },

  getBusinessErrors() {
    const known = (code, description, match, solution, retryable = false) => ({ code, description, match, solution, retryable });
    return [
      known('PATH_OUTSIDE_SCOPE', 'The file is outside the allowed directories.', /not in the allowed directories|outside the allowed directories/i, 'Use a file in the allowed directories, or grant its directory with configure ALLOWED_DIRECTORIES.'),
      known('FILE_NOT_FOUND', 'The file does not exist.', /^no such file:/i, 'Check the path.'),
      known('INVALID_PATH', 'The path names no file.', /^invalid path:/i, 'Name a regular file, or an http or https address.'),
      known('PDF_ENCRYPTED', 'The file is encrypted.', /^encrypted pdf:/i, 'Ask the user for the password and give it as password.'),
      known('WRONG_PASSWORD', 'The password is wrong.', /^wrong password:/i, 'Ask the user for the right password.'),
      known('INVALID_PDF', 'The file is no PDF, is empty, or is broken.', /^invalid pdf:/i, 'Check that the file is a whole PDF, for instance by downloading it again.'),
      known('PAGE_OUT_OF_RANGE', 'There is no such page.', /^page out of range:/i, 'Ask for pages within the number that the message names.'),
      known('FILE_TOO_LARGE', 'The file is too large.', /^file too large:/i, 'Split the file.'),
      known('NETWORK_NOT_GRANTED', 'The network is not granted for that host.', /^network not granted:/i, 'Ask the user to grant the host to the tool, as the message says.'),
      known('DOWNLOAD_FAILED', 'The address cannot be read.', /^download failed:/i, 'Check the address, and have the network granted for its host.', true),
      known('PERMISSION_DENIED', 'The file system does not permit it.', /permission denied/i, 'Ask the user to change the permissions of the file.'),
      known('DEPENDENCY_MISSING', 'pdf.js is not installed.', /^dependency missing:|is not installed for the tool/i, 'Install the dependencies of the tool again.'),
      known('INVALID_PARAMETERS', 'Parameters are missing or wrong.', /^invalid parameters?:/i, 'Read the manual of the tool for its parameters.'),
    ];
  },

  getRuntimeConfig() {
    return { sandboxType: 'nodejs', networkAccess: false };
  },

  async execute(params) {
    const args = this.checked(params);
    await this.initializeFilesystem?.();
    const { signal } = this.api ?? {};
    signal?.throwIfAborted();
    const name = shown(args.pdfPath);
    this.api?.logger?.debug?.(`pdf-reader ${args.method}`, { file: name });
    const bytes = await bytesOf(args.pdfPath, (p) => this.resolvePath(p), signal);
    const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 32); // pdf.js takes the bytes away
    const pdfjs = await this.library();
    const { doc, destroy } = await open(pdfjs, bytes, { password: args.password, name, toolDir: this.__toolDir });
    try {
      return await METHODS[args.method].call(this, { args, doc, hash, pdfjs, signal });
    } finally {
      await destroy();
    }
  },

  /** checked is the parameters of a call, or an error that names all that is wrong with them. */
  checked(params) {
    const args = params ?? {};
    const verdict = this.validateParameters?.(args, this.getSchema().parameters);
    const faults = verdict && !verdict.valid ? [...verdict.errors] : [];
    if (faults.length === 0) {
      if (!Object.hasOwn(METHODS, args.method)) faults.push(`method ${JSON.stringify(args.method)} is none of ${Object.keys(METHODS).join(', ')}`);
      if (typeof args.pdfPath !== 'string' || args.pdfPath === '') faults.push('pdfPath is needed');
    }
    if (faults.length > 0) throw fail('INVALID_PARAMETERS', `invalid parameters: ${faults.map((f) => f?.message ?? f).join('; ')}`);
    return args;
  },

  /** library loads pdf.js, which wants three things of a browser that only drawing uses. */
  async library() {
    for (const missing of ['DOMMatrix', 'ImageData', 'Path2D']) globalThis[missing] ??= class {};
    const name = 'pdfjs-dist/legacy/build/pdf.mjs';
    return this.importToolModule ? this.importToolModule(name) : import(name);
  },
};

const METHODS = {
  async read_pdf({ args, doc, hash, pdfjs, signal }) {
    const about = await information(doc);
    const { totalPages, title, author } = about;
    if (args.pages === undefined || args.pages === null) {
      return { success: true, metadata: about, message: `The file has ${totalPages} page${totalPages === 1 ? '' : 's'}. Read some with pages: 1, [1, 2] or "1-${totalPages}".` };
    }
    const wanted = pageNumbers(args.pages, totalPages);
    const store = new Store(path.join(this.__toolDir ?? '.', 'data', 'images'), hash, args.forceRefresh);
    const out = [];
    let length = 0;
    let next;
    for (const [i, number] of wanted.entries()) {
      signal?.throwIfAborted();
      const page = await doc.getPage(number);
      const text = await textOf(page);
      if (length > 0 && length + text.length > TEXT_LIMIT) {
        next = number;
        break;
      }
      length += text.length;
      const images = args.extractImages === false ? [] : await store.write(pdfjs, page, number);
      out.push({ page: number, text: text.slice(0, TEXT_LIMIT), hasText: text !== '', hasImages: images.length > 0, imageCount: images.length, images });
      page.cleanup();
      this.api.progress(i + 1, wanted.length, `page ${number}`);
    }
    await store.tidy();
    const imageCount = out.reduce((n, p) => n + p.imageCount, 0);
    const text = out.map((p) => `=== Page ${p.page} ===\n${p.text}`).join('\n\n');
    const truncated = next === undefined ? undefined : `The text is long; go on with page ${next}.`;
    const structuredContent = {
      success: true,
      metadata: { totalPages, title, author, requestedPages: wanted },
      content: {
        ...(args.perPage ? {} : { text }),
        pages: args.perPage ? out : out.map(({ text: _, ...rest }) => rest),
        hasImages: imageCount > 0,
        imageCount,
        ...(imageCount > 0 && { imagesDirectory: store.dir }),
      },
      cache: { hits: store.hits, misses: store.misses },
      ...(truncated && { truncated }),
      ...(store.skipped > 0 && { imagesSkipped: store.skipped }),
    };
    // For a reader the text as it is; it is not repeated as JSON.
    const notes = [
      `${totalPages} page${totalPages === 1 ? '' : 's'} in all`,
      ...out.flatMap((p) => p.images).map((i) => `image ${i.index} of page ${i.page}, ${i.width}×${i.height}: ${i.path}`),
      ...out.filter((p) => !p.hasText).map((p) => `page ${p.page} has no text`),
      ...(truncated ? [truncated] : []),
    ];
    return { content: [{ type: 'text', text: `${text}\n\n[${notes.join('; ')}]` }], structuredContent };
  },

  async get_metadata({ doc }) {
    const outline = await doc.getOutline();
    return {
      success: true,
      metadata: await information(doc),
      outline: headings(outline ?? []),
    };
  },

  async list_images({ args, doc, pdfjs, signal }) {
    const wanted = pageNumbers(args.pages ?? `1-${doc.numPages}`, doc.numPages);
    const images = [];
    let skipped = 0;
    for (const [i, number] of wanted.entries()) {
      signal?.throwIfAborted();
      const page = await doc.getPage(number);
      let index = 0;
      await imagesOf(pdfjs, page, ({ width, height, inline = false }) => {
        if (images.length < IMAGE_LIMIT) images.push({ page: number, index: index++, width, height, inline });
        else skipped++;
      });
      page.cleanup();
      this.api.progress(i + 1, wanted.length, `page ${number}`);
    }
    return { success: true, totalPages: doc.numPages, imageCount: images.length + skipped, images, ...(skipped > 0 && { imagesSkipped: skipped }) };
  },
};

/** shown is what of a path or address may stand in messages: a query may hold a secret. */
function shown(where) {
  return /^https?:\/\//i.test(where) ? where.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//') : where;
}

function headings(items, depth = 1) {
  return items.slice(0, 500).map(({ title, items: below }) => ({
    title,
    ...(below?.length > 0 && depth < 4 && { items: headings(below, depth + 1) }),
  }));
}

/** Store keeps the images of a document as files. */
class Store {
  hits = 0;
  misses = 0;
  skipped = 0;
  #count = 0;

  constructor(root, hash, refresh) {
    this.root = root;
    this.dir = path.join(root, hash);
    this.refresh = refresh === true;
  }

  async write(pdfjs, page, number) {
    const list = [];
    await imagesOf(pdfjs, page, async (image) => {
      if (this.#count >= IMAGE_LIMIT) {
        this.skipped++;
        return;
      }
      const index = list.length;
      const file = path.join(this.dir, `page-${number}-img-${index}.png`);
      const { width, height } = image;
      if (this.refresh || !(await stat(file).catch(() => undefined))?.isFile()) {
        const bytes = await png(image);
        if (bytes === undefined) {
          this.skipped++;
          return;
        }
        await mkdir(this.dir, { recursive: true });
        const temporary = `${file}.${process.pid}.tmp`;
        await writeFile(temporary, bytes);
        await rename(temporary, file);
        this.misses++;
      } else {
        this.hits++;
      }
      this.#count++;
      list.push({ page: number, index, path: file, width, height });
    });
    return list;
  }

  /** tidy removes the images of the documents that were read longest ago. */
  async tidy() {
    if (this.#count === 0) return;
    const now = new Date();
    await utimes(this.dir, now, now);
    const dirs = await Promise.all((await readdir(this.root)).map(async (name) => {
      const dir = path.join(this.root, name);
      return { dir, at: (await stat(dir).catch(() => ({ mtimeMs: 0 }))).mtimeMs };
    }));
    const old = dirs.filter(({ dir }) => dir !== this.dir).sort((a, b) => b.at - a.at).slice(KEPT - 1);
    await Promise.all(old.map(({ dir }) => rm(dir, { recursive: true, force: true })));
  }
}
