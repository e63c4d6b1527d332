import { type ImageMediaType, imageMediaType } from '#shared/operations/image-bytes.ts'

/** The type of a generated image by its bytes; `null` for anything that is not PNG, JPEG or WebP. */
export function generatedImageType(bytes: Uint8Array): Exclude<ImageMediaType, 'image/gif'> | null {
  const type = imageMediaType(bytes)
  return type === 'image/gif' ? null : type
}
