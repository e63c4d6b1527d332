import type { PixelSize } from './image-bytes.ts'

/*
 * The maximum number of input tokens that one image can cost, whichever vendor serves the model. The bound is the
 * largest of the formulas that the vendors of the shipped adapters document:
 *
 * - Gemini 3: a fixed budget for each image; 1,120 at `media_resolution_high`, the default for images.
 * - Gemini 2.x: 258 tokens for each tile. Up to 384 × 384 is one tile; a larger image is first scaled into 3,072 ×
 *   3,072 and then cut into squares of the shorter side / 1.5, at least 256 and at most 768 pixels.
 * - Claude: width × height / 750, or one token for each 28 × 28 patch; never more than 4,784.
 * - GPT, tiled models: 85 + 170 for each of at most eight tiles of 512 pixels (768 × 2,048).
 * - GPT, patched models: at most 1,536 patches of 32 × 32, times at most 2.46.
 *
 * A self-hosted server that counts more (Qwen-VL without `max_pixels`, for example) costs its operator the difference:
 * the payer is never charged above the bound.
 */
const GEMINI_3_TOKENS = 1120
const GEMINI_2_TILE_TOKENS = 258
const GEMINI_2_LONGEST_SIDE = 3072
const CLAUDE_MAXIMUM_TOKENS = 4784
const GPT_TILED_MAXIMUM_TOKENS = 85 + 8 * 170
const GPT_MAXIMUM_PATCHES = 1536

/**
 * The most that any image costs: 24 tiles, of an image of 3,072 × 384. Used where the pixel size is not known before
 * the payment: URLs, GIF and WebP.
 */
export const MAXIMUM_IMAGE_TOKENS = 24 * GEMINI_2_TILE_TOKENS

/** Returns the bound for an image of this size; `null` is an unknown size. */
export function imageTokenBound(size: PixelSize | null): number {
  if (!size) return MAXIMUM_IMAGE_TOKENS
  return Math.max(
    GEMINI_3_TOKENS,
    gemini2Tiles(size) * GEMINI_2_TILE_TOKENS,
    Math.min(CLAUDE_MAXIMUM_TOKENS, Math.max(patches(size, 28), Math.ceil((size.width * size.height) / 750))),
    GPT_TILED_MAXIMUM_TOKENS,
    Math.ceil(Math.min(GPT_MAXIMUM_PATCHES, patches(size, 32)) * 2.46),
  )
}

function gemini2Tiles({ width, height }: PixelSize): number {
  if (width <= 384 && height <= 384) return 1
  const longest = Math.max(width, height, GEMINI_2_LONGEST_SIDE)
  const scaled = {
    width: Math.ceil((width * GEMINI_2_LONGEST_SIDE) / longest),
    height: Math.ceil((height * GEMINI_2_LONGEST_SIDE) / longest),
  }
  const cropUnit = Math.floor(Math.min(scaled.width, scaled.height) / 1.5)
  return patches(scaled, Math.min(768, Math.max(256, cropUnit)))
}

function patches({ width, height }: PixelSize, side: number): number {
  return Math.ceil(width / side) * Math.ceil(height / side)
}
