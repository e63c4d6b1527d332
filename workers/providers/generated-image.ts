import { type ImageMediaType, imageMediaType, imageSize } from '#shared/operations/text/image-bytes.ts'
import { emptyOutput } from './failures.ts'
import type { ProviderFailure } from './provider.ts'

/** The side of the only size that is sold, in pixels (`1K`, `1:1`). */
const SIDE = 1024

export type GeneratedImage =
  | { readonly outcome: 'image'; readonly contentType: Exclude<ImageMediaType, 'image/gif'> }
  | ProviderFailure

/**
 * Reads type and size of a generated image from its bytes. Anything but a PNG, JPEG or WebP of 1024 × 1024 pixels is
 * not what the caller pays for, although the vendor worked for it.
 */
export function readGeneratedImage(bytes: Uint8Array): GeneratedImage {
  const contentType = imageMediaType(bytes)
  if (contentType === null || contentType === 'image/gif')
    return emptyOutput('HTTP 200 with an image that is neither PNG, JPEG nor WebP')
  const size = imageSize(bytes)
  if (size === null) return emptyOutput('HTTP 200 with an image whose header is unreadable')
  if (size.width !== SIDE || size.height !== SIDE)
    return emptyOutput(`HTTP 200 with an image of ${size.width} × ${size.height} pixels`)
  return { outcome: 'image', contentType }
}
