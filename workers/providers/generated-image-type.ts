import { type ImageMediaType, imageMediaType } from '#shared/operations/text/image-bytes.ts'

/** Returns the type of a generated image from its bytes; `null` for anything but PNG, JPEG or WebP. */
export function generatedImageType(bytes: Uint8Array): Exclude<ImageMediaType, 'image/gif'> | null {
  const type = imageMediaType(bytes)
  return type === 'image/gif' ? null : type
}
