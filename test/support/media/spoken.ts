import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Festival's small voices, which Debian's ffmpeg has in its filter `flite`. */
export type SpokenVoice = 'slt' | 'rms' | 'awb' | 'kal'

/** Writes an MP3 in which an artificial voice says a sentence of letters, spaces and full stops. */
export async function speakInto(path: string, sentence: string, voice: SpokenVoice): Promise<void> {
  if (!/^[A-Za-z .]+$/.test(sentence)) throw new Error('the filter would take other signs for its own')
  const source = `flite=text='${sentence}':voice=${voice}`
  const encoding = ['-ar', '24000', '-ac', '1', '-b:a', '64k', '-f', 'mp3', 'pipe:1']
  const { stdout } = await run('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', source, ...encoding], {
    encoding: 'buffer',
    maxBuffer: 16 * 1024 * 1024,
  })
  await writeFile(path, stdout)
}
