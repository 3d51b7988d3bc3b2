// The thirteen methods of a file system, inside the allowed directories.

import { stat as statOf, lstat, readlink } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import path from 'node:path';
import { binaryKind, canonical, choose, decode, encode } from './lib/encoding.js';
import { unified } from './lib/diff.js';
import { apply } from './lib/edit.js';
import { fail } from './lib/fail.js';
import { mimeType } from './lib/media.js';
import { move } from './lib/move.js';
import { Guard, explain, replace } from './lib/paths.js';
import { head, lineEnds, size, span, tail, text, whole } from './lib/text.js';
import { find, list, tree } from './lib/walk.js';

const LIMIT = 4 * 1024 * 1024;       // bytes of text in one result
const MEDIA_LIMIT = 3 * 1024 * 1024; // bytes of media in one result; base64 makes a third more of them
const EDIT_LIMIT = 10 * 1024 * 1024; // bytes of a file that is edited
const DIFF_LIMIT = 256 * 1024;       // characters of a diff

const REQUIRED = {
  read_text_file: ['path'],
  read_media_file: ['path'],
  read_multiple_files: ['paths'],
  write_file: ['path', 'content'],
  edit_file: ['path', 'edits'],
  create_directory: ['path'],
  list_directory: ['path'],
  list_directory_with_sizes: ['path'],
  directory_tree: ['path'],
  move_file: ['source', 'destination'],
  search_files: ['path', 'pattern'],
  get_file_info: ['path'],
  list_allowed_directories: [],
};

export default {
  getMetadata() {
    return {
      id: 'filesystem',
      name: 'filesystem',
      description: 'Reads, writes, edits, moves, lists and searches files in the allowed directories. Use it when files have to be read or changed and no other file tool is at hand, or when a file has another encoding than UTF-8 (GBK, Big5, Shift_JIS, UTF-16). Do not use it for PDF or Office documents (pdf-reader, file-reader), for web pages (file-reader) or to run programs.',
      version: '1.0.0',
      category: 'system',
      author: 'Toolyard',
      tags: ['file', 'directory', 'read', 'write', 'edit', 'search', 'encoding'],
      scenarios: [
        'Read a text file, or only its first or last lines, however large it is',
        'Change a few places of a file after a look at the diff (edit_file with dryRun)',
        'Find files by name in a project, leaving out node_modules',
        'Look at the structure of a directory',
        'Edit a file in GBK, Big5, Shift_JIS or UTF-16 and keep its encoding and line ends',
      ],
      limitations: [
        'Only the allowed directories: by default the tool\'s own data/; configure ALLOWED_DIRECTORIES grants more',
        'At most 4 MB of text or 3 MB of media in one result',
        'Symbolic links that lead out of the allowed directories are refused',
        'Nothing is deleted, and move_file never overwrites',
      ],
    };
  },

  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          method: { type: 'string', enum: Object.keys(REQUIRED), examples: ['list_allowed_directories'], description: 'What to do.' },
          path: { type: 'string', minLength: 1, description: 'File or directory. Relative paths begin at the first allowed directory.' },
          paths: { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1, maxItems: 200, description: 'read_multiple_files: the files.' },
          content: { type: 'string', description: 'write_file: all of the new content; may be empty.' },
          head: { type: 'integer', minimum: 1, description: 'read_text_file: only the first N lines.' },
          tail: { type: 'integer', minimum: 1, description: 'read_text_file: only the last N lines.' },
          encoding: { type: 'string', default: 'auto', description: 'Text encoding, such as gb18030, big5, shift_jis or utf-16le. auto detects it when reading and editing, and is UTF-8 when writing.' },
          edits: {
            type: 'array',
            minItems: 1,
            maxItems: 500,
            description: 'edit_file: changes, made one after another, all or none.',
            items: {
              type: 'object',
              properties: {
                oldText: { type: 'string', description: 'The text to replace, exactly as it is in the file; it must occur once.' },
                newText: { type: 'string', description: 'What stands there afterwards, taken literally.' },
                replaceAll: { type: 'boolean', default: false, description: 'Replace every occurrence.' },
              },
              required: ['oldText', 'newText'],
            },
          },
          dryRun: { type: 'boolean', default: false, description: 'edit_file: show the diff and change nothing.' },
          source: { type: 'string', minLength: 1, description: 'move_file: what to move.' },
          destination: { type: 'string', minLength: 1, description: 'move_file: its new path; nothing may be there.' },
          pattern: { type: 'string', minLength: 1, maxLength: 1000, description: 'search_files: a glob (*.md at any depth, src/**/*.js) or a part of a name.' },
          excludePatterns: { type: 'array', items: { type: 'string' }, maxItems: 200, description: 'search_files, directory_tree: globs of what to leave out, such as node_modules or *.log.' },
          maxResults: { type: 'integer', minimum: 1, maximum: 10000, default: 1000, description: 'search_files: stop after so many.' },
          maxDepth: { type: 'integer', minimum: 1, maximum: 64, default: 64, description: 'directory_tree: how deep to look.' },
          maxEntries: { type: 'integer', minimum: 1, maximum: 20000, default: 5000, description: 'directory_tree: stop after so many.' },
          sortBy: { type: 'string', enum: ['name', 'size'], default: 'name', description: 'list_directory_with_sizes: the order.' },
        },
        required: ['method'],
        examples: [{ method: 'list_directory', path: '.' }],
      },
      environment: {
        type: 'object',
        properties: {
          ALLOWED_DIRECTORIES: { type: 'string', description: 'Directories that may be read and written: a JSON array, or separated by commas. Without it only the tool\'s own data/.' },
        },
        required: [],
      },
    };
  },

  getDependencies() {
    return Object.fromEntries(['diff', 'edit', 'encoding', 'fail', 'glob', 'media', 'move', 'paths', 'text', 'walk'].map((name) => [`./lib/${name}.js`, 'local']));
  },

  getBusinessErrors() {
    const known = (code, description, match, solution, retryable = false) => ({ code, description, match, solution, retryable });
    return [
      known('PATH_OUTSIDE_SCOPE', 'The path is outside the allowed directories.', /outside the allowed directories|symbolic link that must not be followed/i, 'Use a path that list_allowed_directories shows, or grant the directory with configure ALLOWED_DIRECTORIES.'),
      known('CONFLICT', 'The text to replace occurs several times.', /^conflict:/i, 'Give more of the lines around it in oldText, or set replaceAll.'),
      known('NO_MATCH', 'The text to replace is not in the file.', /^no match:/i, 'Read the file again and copy oldText exactly.'),
      known('INVALID_EDIT', 'An edit makes no sense.', /^invalid edit:/i, 'Give oldText as it stands in the file; use write_file for a new file.'),
      known('BINARY_FILE', 'The file is no text.', /^binary file:/i, 'Use read_media_file, or file-reader for documents.'),
      known('FILE_TOO_LARGE', 'The file is too large for one result.', /^file too large:/i, 'Read a part of it with head or tail.'),
      known('UNSUPPORTED_ENCODING', 'The encoding is unknown or lacks a character.', /^unsupported encoding:|^encoding not kept:/i, 'Name another encoding, such as utf-8 or gb18030.'),
      known('ALREADY_EXISTS', 'Something is there already.', /already exists|EEXIST/i, 'Choose another destination.'),
      known('FILE_NOT_FOUND', 'The file or directory does not exist.', /no such file or directory|ENOENT/i, 'Check the path with list_directory or search_files.'),
      known('IS_A_DIRECTORY', 'The path is a directory.', /is a directory|EISDIR/i, 'Name a file, or use list_directory.'),
      known('NOT_A_DIRECTORY', 'The path is not a directory.', /not a directory|ENOTDIR/i, 'Name a directory.'),
      known('NOT_A_FILE', 'The path is a device, a socket or a pipe.', /not a regular file/i, 'Name a regular file.'),
      known('DIRECTORY_NOT_EMPTY', 'The directory is not empty.', /directory not empty|ENOTEMPTY/i, 'Choose another destination.'),
      known('PERMISSION_DENIED', 'The file system does not permit it.', /permission denied|EACCES|EPERM/i, 'Ask the user to change the permissions of the file or directory.'),
      known('DISK_FULL', 'There is no space left.', /no space left|ENOSPC/i, 'Free some space and try again.', true),
      known('INVALID_PATTERN', 'The glob is not usable.', /^invalid pattern:/i, 'Use a simpler glob.'),
      known('INVALID_PATH', 'The path is not usable.', /invalid path/i, 'Check the path.'),
      known('INVALID_PARAMETERS', 'Parameters are missing or wrong.', /^invalid parameters?:/i, 'Read the tool\'s manual for the parameters of the method.'),
    ];
  },

  getRuntimeConfig() {
    return { sandboxType: 'nodejs', networkAccess: false };
  },

  async execute(params) {
    const args = this.checked(params);
    await this.initializeFilesystem?.();
    const guard = new Guard(this);
    const { signal } = this.api ?? {};
    signal?.throwIfAborted();
    const progress = (...report) => this.api?.progress?.(...report);
    this.api?.logger?.debug?.(`filesystem ${args.method}`, { path: args.path ?? args.source ?? args.paths });
    return METHODS[args.method](guard, args, { signal, progress, log: this.api?.logger });
  },

  /** checked is the parameters of a call, or an error that names all that is wrong with them. */
  checked(params) {
    const args = params ?? {};
    const verdict = this.validateParameters?.(args, this.getSchema().parameters);
    const faults = verdict && !verdict.valid ? [...verdict.errors] : [];
    if (faults.length === 0) {
      if (!Object.hasOwn(REQUIRED, args.method)) faults.push(`method ${JSON.stringify(args.method)} is none of ${Object.keys(REQUIRED).join(', ')}`);
      else faults.push(...REQUIRED[args.method].filter((name) => args[name] === undefined || args[name] === null).map((name) => `${args.method} needs ${name}`));
      if (args.head && args.tail) faults.push('head and tail exclude each other');
    }
    if (faults.length > 0) throw fail('INVALID_PARAMETERS', `invalid parameters: ${faults.map((f) => f?.message ?? f).join('; ')}`);
    return args;
  },
};

const METHODS = {
  async read_text_file(guard, args, { signal, log }) {
    const file = await guard.file(args.path);
    try {
      const options = { encoding: args.encoding, limit: LIMIT, signal };
      const found = args.head ? await head(file, args.head, args.path, options)
        : args.tail ? await tail(file, args.tail, args.path, options)
          : await text(file, args.path, options);
      if (found.encoding !== 'utf-8') log?.info?.(`${args.path} is in ${found.encoding}`, { confidence: found.confidence });
      return found.text;
    } finally {
      await file.handle.close();
    }
  },

  async read_media_file(guard, args, { signal }) {
    const file = await guard.file(args.path);
    try {
      const bytes = await whole(file, MEDIA_LIMIT, args.path, signal, 'it is too large for a result');
      const type = mimeType(bytes, args.path);
      // The runtime shows base64 with the type of an image or a sound as such.
      if (/^(image|audio)\//.test(type)) return { path: args.path, mimeType: type, size: bytes.length, base64: bytes.toString('base64') };
      const resource = { uri: pathToFileURL(file.path).href, mimeType: type, blob: bytes.toString('base64') };
      return { content: [{ type: 'resource', resource }], structuredContent: { path: args.path, mimeType: type, size: bytes.length } };
    } finally {
      await file.handle.close();
    }
  },

  async read_multiple_files(guard, args, { signal, progress }) {
    const out = [];
    let left = LIMIT;
    for (const [i, name] of args.paths.entries()) {
      signal?.throwIfAborted();
      try {
        const file = await guard.file(name);
        try {
          if (file.stat.size > left) throw fail('FILE_TOO_LARGE', `file too large: with ${name} (${size(file.stat.size)}) the result has more than ${size(LIMIT)}; read it alone`);
          const found = await text(file, name, { encoding: args.encoding, limit: left, signal });
          left -= found.bytes.length;
          out.push({ path: name, content: found.text, success: true });
        } finally {
          await file.handle.close();
        }
      } catch (error) {
        if (signal?.aborted) throw error;
        out.push({ path: name, error: error.message, code: error.code, success: false });
      }
      if (args.paths.length > 10) progress(i + 1, args.paths.length, name);
    }
    return out;
  },

  async write_file(guard, args, { signal }) {
    const encoding = !args.encoding || args.encoding === 'auto' ? 'utf-8' : canonical(args.encoding);
    const bytes = encode(args.content, encoding, encoding.startsWith('utf-16'));
    const dir = await guard.parent(args.path, { follow: true, create: true });
    try {
      await replace(dir, bytes, args.path, signal);
      return { path: args.path, bytesWritten: bytes.length, created: !dir.stat };
    } finally {
      await dir.handle.close();
    }
  },

  async edit_file(guard, args, { signal }) {
    const file = await guard.file(args.path);
    let bytes;
    try { bytes = await whole(file, EDIT_LIMIT, args.path, signal, 'it cannot be edited'); } finally { await file.handle.close(); }
    const kind = args.encoding && args.encoding !== 'auto' ? '' : binaryKind(bytes);
    if (kind) throw fail('BINARY_FILE', `binary file: ${args.path} is no text (${kind}, ${size(bytes.length)})`);
    const { encoding, mark } = choose(bytes, args.encoding);
    const before = decode(bytes, encoding);
    if (!encode(before, encoding, mark > 0).equals(bytes)) {
      throw fail('UNSUPPORTED_ENCODING', `encoding not kept: ${args.path} is not clean ${encoding}; an edit would change other bytes of it as well`);
    }
    const { text: after, notes } = apply(before, args.edits, args.path);
    let diff = unified(before, after, path.basename(args.path));
    if (diff.length > DIFF_LIMIT) diff = `${diff.slice(0, DIFF_LIMIT)}\n… ${diff.length - DIFF_LIMIT} more characters\n`;
    const result = { path: args.path, editsApplied: args.edits.length, diff, ...(notes.length > 0 && { notes }) };
    const changed = encode(after, encoding, mark > 0);
    if (args.dryRun) return { ...result, editsApplied: 0, dryRun: true };
    const dir = await guard.parent(args.path, { follow: true });
    try {
      if (!dir.stat || dir.stat.ino !== file.stat.ino || dir.stat.mtimeMs !== file.stat.mtimeMs || dir.stat.size !== file.stat.size) {
        throw fail('CONFLICT', `conflict: ${args.path} was changed by somebody else in the meantime; read it again`);
      }
      await replace(dir, changed, args.path, signal);
    } finally {
      await dir.handle.close();
    }
    return result;
  },

  async create_directory(guard, args) {
    const dir = await guard.ensure(guard.lexical(args.path), args.path, true);
    await dir.handle.close();
    return { created: dir.path };
  },

  list_directory: (guard, args, how) => list(guard, args.path, how),
  list_directory_with_sizes: (guard, args, how) => list(guard, args.path, { ...how, sizes: true, sortBy: args.sortBy }),
  directory_tree: (guard, args, how) => tree(guard, args.path, { ...args, ...how }),
  search_files: (guard, args, how) => find(guard, args.path, { ...args, ...how }),

  async move_file(guard, args, how) {
    await move(guard, args.source, args.destination, how);
    return { from: args.source, to: args.destination };
  },

  async get_file_info(guard, args, { signal }) {
    const lexical = guard.lexical(args.path);
    const target = await guard.real(args.path);
    let info;
    try { info = await statOf(target); } catch (error) { throw explain(error, args.path); }
    const out = {
      path: args.path,
      size: info.size,
      created: info.birthtime.toISOString(),
      modified: info.mtime.toISOString(),
      accessed: info.atime.toISOString(),
      isDirectory: info.isDirectory(),
      isFile: info.isFile(),
      permissions: info.mode,
      mode: (info.mode & 0o7777).toString(8).padStart(4, '0'),
    };
    const link = await lstat(lexical);
    if (link.isSymbolicLink()) Object.assign(out, { isSymbolicLink: true, target: await readlink(lexical) });
    if (info.isFile()) Object.assign(out, await content(guard, args.path, signal).catch(() => ({})));
    return out;
  },

  list_allowed_directories: (guard) => guard.dirs,
};

// content is what the first bytes of a file say of the rest.
async function content(guard, input, signal) {
  const file = await guard.file(input);
  try {
    const bytes = await span(file.handle, 0, 64 * 1024, signal);
    const start = bytes.subarray(0, Math.min(bytes.length, 64 * 1024));
    if (binaryKind(start)) return { mimeType: mimeType(start, input) };
    const { encoding, confidence, mark } = choose(start, undefined, start.length === file.stat.size);
    const plain = decode(start, encoding);
    return { encoding, encodingConfidence: confidence, byteOrderMark: mark > 0, lineEnds: lineEnds(plain) };
  } finally {
    await file.handle.close();
  }
}
