import { randomBytes } from 'node:crypto'

/** A form with a file, as a `Blob`: Node streams it from the disk, with a known length. */
export interface MultipartForm {
  readonly contentType: string
  encode(file: Blob): Blob
}

/**
 * Creates a form of fields and one file. Node's own `FormData` is not used as a body: when an answer arrives before all
 * is sent, as of a busy service, its fetch fails with an error that nobody can catch and that ends the process.
 */
export function createMultipartForm(
  fields: Readonly<Record<string, string | number | boolean | undefined>>,
  fileName: string,
): MultipartForm {
  const boundary = `farebox-${randomBytes(16).toString('hex')}`
  const begin = (disposition: string) => `--${boundary}\r\ncontent-disposition: form-data; ${disposition}\r\n`
  const head = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${begin(`name="${name}"`)}\r\n${String(value)}\r\n`)
    .join('')
  const fileHead = `${begin(`name="file"; filename="${fileName}"`)}content-type: application/octet-stream\r\n\r\n`
  const contentType = `multipart/form-data; boundary=${boundary}`
  return {
    contentType,
    encode: (file) => new Blob([head + fileHead, file, `\r\n--${boundary}--\r\n`], { type: contentType }),
  }
}
