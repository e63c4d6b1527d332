/** One part of a form: a file when it has a `fileName`, else a plain field. */
export interface FormPart {
  readonly name: string
  readonly value: string | Uint8Array
  readonly fileName?: string
  readonly contentType?: string
}

const BOUNDARY = 'farebox-test-boundary'

/** The content type of the bodies of {@link multipartBody}. */
export const MULTIPART_CONTENT_TYPE = `multipart/form-data; boundary=${BOUNDARY}`

/** Writes a form byte by byte: tests also need forms that `FormData` cannot write. */
export function multipartBody(parts: readonly FormPart[]): Buffer {
  const written = parts.flatMap(({ name, value, fileName, contentType }) => {
    const file = fileName === undefined ? '' : `; filename="${fileName}"`
    const type = contentType === undefined ? '' : `Content-Type: ${contentType}\r\n`
    const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n${type}\r\n`
    return [Buffer.from(head), Buffer.from(value), Buffer.from('\r\n')]
  })
  return Buffer.concat([...written, Buffer.from(`--${BOUNDARY}--\r\n`)])
}
