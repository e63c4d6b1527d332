/** One part of a form. Without `fileName` it is written the way plain fields are. */
export interface FormPart {
  readonly name: string
  readonly value: string | Uint8Array
  readonly fileName?: string
  readonly contentType?: string
}

const BOUNDARY = 'farebox-test-boundary'

/** The content type of every body that `multipartBody` writes. */
export const multipartContentType = `multipart/form-data; boundary=${BOUNDARY}`

/** Writes a form byte for byte, so that a test can also write what `FormData` would not. */
export function multipartBody(parts: readonly FormPart[]): Buffer {
  const written = parts.flatMap(({ name, value, fileName, contentType }) => {
    const file = fileName === undefined ? '' : `; filename="${fileName}"`
    const type = contentType === undefined ? '' : `Content-Type: ${contentType}\r\n`
    const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n${type}\r\n`
    return [Buffer.from(head), Buffer.from(value), Buffer.from('\r\n')]
  })
  return Buffer.concat([...written, Buffer.from(`--${BOUNDARY}--\r\n`)])
}
