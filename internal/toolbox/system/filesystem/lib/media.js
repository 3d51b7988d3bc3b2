// What a file is, by its first bytes and, failing that, by its name.

import path from 'node:path';

const SIGNS = [
  ['89504e470d0a1a0a', 'image/png'], ['ffd8ff', 'image/jpeg'], ['474946383761', 'image/gif'], ['474946383961', 'image/gif'],
  ['255044462d', 'application/pdf'], ['664c6143', 'audio/flac'], ['4f676753', 'audio/ogg'],
  ['504b0304', 'application/zip'], ['1f8b08', 'application/gzip'],
];

const NAMES = {
  '.png': 'image/png', '.jpg': 'image/jpeg', '.jpeg': 'image/jpeg', '.gif': 'image/gif', '.webp': 'image/webp', '.bmp': 'image/bmp',
  '.svg': 'image/svg+xml', '.ico': 'image/x-icon', '.avif': 'image/avif', '.tif': 'image/tiff', '.tiff': 'image/tiff', '.heic': 'image/heic',
  '.mp3': 'audio/mpeg', '.wav': 'audio/wav', '.ogg': 'audio/ogg', '.flac': 'audio/flac', '.m4a': 'audio/mp4', '.aac': 'audio/aac',
  '.mp4': 'video/mp4', '.webm': 'video/webm', '.mov': 'video/quicktime', '.mkv': 'video/x-matroska', '.avi': 'video/x-msvideo',
  '.pdf': 'application/pdf', '.zip': 'application/zip', '.gz': 'application/gzip', '.wasm': 'application/wasm',
  '.docx': 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  '.xlsx': 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  '.pptx': 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
};

/** mimeType is the media type of bytes with a name. */
export function mimeType(bytes, name) {
  const head = bytes.subarray(0, 16).toString('hex');
  const form = bytes.subarray(0, 12).toString('latin1');
  if (form.startsWith('RIFF') && form.slice(8) === 'WEBP') return 'image/webp';
  if (form.startsWith('RIFF') && form.slice(8) === 'WAVE') return 'audio/wav';
  const named = NAMES[path.extname(name).toLowerCase()];
  const sign = SIGNS.find(([hex]) => head.startsWith(hex));
  // The documents of office programs are zip archives.
  if (sign && !(sign[1] === 'application/zip' && named?.startsWith('application/vnd'))) return sign[1];
  return named ?? 'application/octet-stream';
}
