import { spawn } from 'node:child_process'
import pLimit from 'p-limit'
import { hasCrcAt, sideInformationBytesAt } from '#mp3/mpeg-header.ts'
import { walkFrames } from '#mp3/walk-frames.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { createToneListener, LISTENING_RATE, type SoundedWord } from './tone-listener.ts'

const DECODE = `-v error -f mp3 -i pipe:0 -ac 1 -ar ${LISTENING_RATE} -f s16le pipe:1`.split(' ')
const HEADER_BYTES = 4
const CRC_BYTES = 2

/** Recordings that are decoded at the same time: each keeps a core busy. */
const atOnce = pLimit(2)

let ffmpegPath: Promise<string | undefined> | undefined

/** Returns the words that scripted voices speak in an MP3, at the times at which they sound. */
export async function hearTones(file: Uint8Array): Promise<readonly SoundedWord[]> {
  return hasSound(file) ? await atOnce(() => listen(file)) : []
}

/** Returns whether any frame is other than silence, whose side information is zero. */
export function hasSound(file: Uint8Array): boolean {
  let sounds = false
  walkFrames(file, (start) => {
    const from = start + HEADER_BYTES + (hasCrcAt(file, start) ? CRC_BYTES : 0)
    sounds ||= file.subarray(from, from + sideInformationBytesAt(file, start)).some((byte) => byte !== 0)
  })
  return sounds
}

async function listen(file: Uint8Array): Promise<SoundedWord[]> {
  const listener = createToneListener()
  const words: SoundedWord[] = []
  for await (const samples of decodeRecording(file)) words.push(...listener.push(samples))
  return [...words, ...listener.end()]
}

/** Decodes an MP3 with the service's ffmpeg, into pieces of samples of one channel. There are none without an ffmpeg. */
async function* decodeRecording(file: Uint8Array): AsyncGenerator<Int16Array> {
  ffmpegPath ??= findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })
  const path = await ffmpegPath
  if (path === undefined) return
  const decoder = spawn(path, DECODE, { stdio: ['pipe', 'pipe', 'ignore'] })
  // It may end before it has read everything; what it decoded until then counts.
  decoder.once('error', () => decoder.stdout.destroy())
  decoder.stdin.on('error', () => undefined)
  decoder.stdin.end(file)
  try {
    let rest = Buffer.alloc(0)
    for await (const chunk of decoder.stdout) {
      const bytes = Buffer.concat([rest, chunk as Buffer])
      const samples = new Int16Array(bytes.length >> 1)
      for (let index = 0; index < samples.length; index++) samples[index] = bytes.readInt16LE(index * 2)
      rest = bytes.subarray(samples.length * 2)
      yield samples
    }
  } finally {
    decoder.kill('SIGKILL')
  }
}
