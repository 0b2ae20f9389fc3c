import { typeByExtension } from '../tools/parts.js'

/** The file types that Deep Agents gives to a model as they are, and not as lines of text. */
const binaryTypes: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.heic': 'image/heic',
  '.heif': 'image/heif',
  '.mp3': 'audio/mpeg',
  '.wav': 'audio/wav',
  '.aiff': 'audio/aiff',
  '.aac': 'audio/aac',
  '.ogg': 'audio/ogg',
  '.flac': 'audio/flac',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.mpeg': 'video/mpeg',
  '.mov': 'video/quicktime',
  '.avi': 'video/x-msvideo',
  '.flv': 'video/x-flv',
  '.mpg': 'video/mpeg',
  '.wmv': 'video/x-ms-wmv',
  '.3gpp': 'video/3gpp',
  '.pdf': 'application/pdf',
  '.ppt': 'application/vnd.ms-powerpoint',
  '.pptx': 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
}

/** A glob of the names of these files. */
export const binaryNames = `*.{${Object.keys(binaryTypes)
  .map((extension) => extension.slice(1))
  .join(',')}}`

/** The media type of a binary file by the extension of its path. Every other file is text. */
export function binaryTypeOf(path: string): string | undefined {
  return typeByExtension(binaryTypes, path)
}

/** The media type of all text: the protocol leaves it to a backend. */
export const textType = 'text/plain'
