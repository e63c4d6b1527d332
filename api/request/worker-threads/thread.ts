import { encryptUpload } from '#shared/media/staged-upload.ts'
import { splitJsonUpload } from '../json-upload.ts'
import { measureAudio } from '../measure-audio.ts'
import { SMALL_BODY_BYTES, type ThreadExports } from './messages.ts'
import { asBuffer, free, transfer } from './transfers.ts'

/*
 * The entry point of the worker threads, which process large bodies so that the event loop stays responsive. It loads little:
 * a thread starts with the first large body, whose caller waits for it.
 */

/** Does nothing: the thread has started. */
export const start: ThreadExports['start'] = () => null

/** Decodes and measures the upload of a JSON body, and returns the rest, unless that is long, or the upload not in order. */
export const takeUpload: ThreadExports['takeUpload'] = ({ bytes, field }) => {
  const split = splitJsonUpload(asBuffer(bytes), field)
  if (split === null || split.rest.length > SMALL_BODY_BYTES) return transfer({ outcome: 'left', bytes }, bytes)
  free(bytes)
  const { upload, ...rest } = split
  return transfer({ outcome: 'taken', ...rest, upload: measureAudio(upload) }, upload)
}

/** Hashes the file of a form, walks its frames and returns it with the result. */
export const measureFile: ThreadExports['measureFile'] = (audio) => transfer(measureAudio(audio), audio)

/** Encrypts an upload for staging. */
export const sealUpload: ThreadExports['sealUpload'] = ({ audio, stagedUpload }) => {
  const sealed = encryptUpload(stagedUpload, audio)
  return transfer(sealed, sealed)
}

/** Parses, validates, measures, digests and prices a JSON body. */
export const prepareJson: ThreadExports['prepareJson'] = async (task) =>
  await (await import('./whole-bodies.ts')).prepareJson(task)

/** Parses a JSON-RPC message, and does the same with the arguments of its tool call. */
export const prepareMessage: ThreadExports['prepareMessage'] = async (task) =>
  await (await import('./whole-bodies.ts')).prepareMessage(task)
