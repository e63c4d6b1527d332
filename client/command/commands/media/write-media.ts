import { extname } from 'node:path'
import { replaceFile } from '../../../files/replace-file.ts'
import { FareboxError } from '../../../wire/farebox-error.ts'
import type { Output } from '../../output/output.ts'
import { adviceFor } from './download.ts'
import { STDOUT } from './targets.ts'

/** The first bytes of what models return, and the endings of its files. */
const FORMATS = [
  { name: 'PNG', start: /^\x89PNG/, endings: ['.png'] },
  { name: 'JPEG', start: /^\xff\xd8\xff/, endings: ['.jpg', '.jpeg'] },
  { name: 'WebP', start: /^RIFF.{4}WEBP/s, endings: ['.webp'] },
  { name: 'MP3', start: /^(ID3|\xff[\xe2-\xff])/, endings: ['.mp3'] },
] as const

/** Writes a result that is paid for, completely or not at all. */
export async function writeMedia(output: Output, target: string, bytes: Uint8Array, key: string): Promise<void> {
  if (target === STDOUT) {
    await output.content(bytes)
    return
  }
  try {
    await replaceFile(target, bytes)
  } catch (cause) {
    throw new FareboxError({
      code: 'output_unwritable',
      problem: `${target} could not be written (${cause instanceof Error ? cause.message : String(cause)}).`,
      money: 'settled',
      advice: adviceFor(key),
      cause,
    })
  }
  const format = formatOf(bytes)
  if (format !== undefined && !(format.endings as readonly string[]).includes(extname(target).toLowerCase()))
    output.warn(`${target} contains ${format.name}; its usual ending is ${format.endings[0]}`)
}

function formatOf(bytes: Uint8Array) {
  const start = Buffer.from(bytes.subarray(0, 16)).toString('latin1')
  return FORMATS.find((format) => format.start.test(start))
}
