import { frameLengthAt, freeFormat, layerAt, paddingAt, sideInformationBytesAt, streamKeyAt } from './mpeg-header.ts'

/** Where the walk stands with free format: the length it found last, and how many searches it may still make in vain. */
export interface FreeFormatState {
  /** Stream key that `baseBytes` belongs to, or -1. */
  key: number
  /** Frame bytes without padding. */
  baseBytes: number
  failuresLeft: number
}

// LAME goes to 640 kbit/s: 2,880 bytes at 32 kHz. Decoders stop a little above.
const maximumFreeFormatBytes = 4_096

// A search costs up to 4 KiB of looking, so a hostile file may make only some in vain. An honest one makes none.
const maximumFailures = 64

/** State for a new walk. */
export function newFreeFormatState(): FreeFormatState {
  return { key: -1, baseBytes: 0, failuresLeft: maximumFailures }
}

function isFreeFormatOf(bytes: Uint8Array, offset: number, end: number, key: number): boolean {
  return frameLengthAt(bytes, offset, end) === freeFormat && streamKeyAt(bytes, offset) === key
}

/** Distance to the next free-format header of the same stream that is confirmed by a third one or by the end. */
function searchFreeFormatBytes(bytes: Uint8Array, offset: number, end: number, key: number): number {
  const smallest = 4 + sideInformationBytesAt(bytes, offset)
  const padding = paddingAt(bytes, offset)
  const last = Math.min(end - 4, offset + maximumFreeFormatBytes)
  let next = bytes.indexOf(0xff, offset + smallest)
  for (; next >= 0 && next <= last; next = bytes.indexOf(0xff, next + 1)) {
    if (!isFreeFormatOf(bytes, next, end, key)) continue
    const third = next + (next - offset) - padding + paddingAt(bytes, next)
    if (third === end || isFreeFormatOf(bytes, third, end, key)) return next - offset - padding
  }
  return 0
}

/**
 * Bytes of the free-format frame at `offset`, whose header says only that its length is the stream's, or zero when
 * neither the length found last nor a search explains it.
 */
function freeFormatBytesAt(bytes: Uint8Array, offset: number, end: number, state: FreeFormatState): number {
  const key = streamKeyAt(bytes, offset)
  const known = state.key === key ? state.baseBytes + paddingAt(bytes, offset) : 0
  if (known > 0 && (offset + known >= end || isFreeFormatOf(bytes, offset + known, end, key))) return known
  if (state.failuresLeft === 0) return known
  const base = searchFreeFormatBytes(bytes, offset, end, key)
  if (base === 0) {
    state.failuresLeft--
    return known
  }
  state.key = key
  state.baseBytes = base
  return base + paddingAt(bytes, offset)
}

/** Bytes of the layer III frame whose header stands at `offset` (it may reach past `end`), or zero when there is none. */
export function layer3BytesAt(bytes: Uint8Array, offset: number, end: number, state: FreeFormatState): number {
  const length = frameLengthAt(bytes, offset, end)
  if (length === 0 || layerAt(bytes, offset) !== 3) return 0
  return length === freeFormat ? freeFormatBytesAt(bytes, offset, end, state) : length
}

/** Whether three whole frames of one stream stand one behind the other at `offset`, whatever the layer. */
export function threeFramesAt(bytes: Uint8Array, offset: number, end: number, state: FreeFormatState): boolean {
  let position = offset
  let key = -1
  for (let count = 0; count < 3; count++) {
    let length = frameLengthAt(bytes, position, end)
    if (length === 0) return false
    if (count > 0 && streamKeyAt(bytes, position) !== key) return false
    key = streamKeyAt(bytes, position)
    if (length === freeFormat) length = freeFormatBytesAt(bytes, position, end, state)
    if (length === 0) return false
    position += length
  }
  return position <= end
}
