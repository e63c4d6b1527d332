import { walkFrames } from '#mp3/walk-frames.ts'
import { countCodePoints } from '#shared/operations/request-text.ts'
import { speech, speechResult, spokenRequest } from '#shared/operations/speech.ts'
import { upstreamVoice } from '../providers/deployment.ts'
import { emptyOutput } from '../providers/failures.ts'
import type { ConvertToMp3 } from './convert-to-mp3.ts'
import { type Execution, unsupportedBy, withUsage } from './execution.ts'
import { speechBytes } from './held-bytes.ts'

/**
 * Creates the execution: one hosted MP3, converted of what a server sends in another format. Duration and size are measured
 * from it, characters from the input.
 */
export const speechSynthesis = (convert: ConvertToMp3): Execution => ({
  heldBytes: ({ effectiveRequest }) => speechBytes(speech.effectiveRequestSchema.parse(effectiveRequest).input.length),
  screenedTexts: ({ job }) => [speech.effectiveRequestSchema.parse(job.effectiveRequest).input],
  prepare: async ({ job }) => {
    const effective = speech.effectiveRequestSchema.parse(job.effectiveRequest)
    const characters = countCodePoints(effective.input)
    return {
      call: async (deployment, options) => {
        const voice = upstreamVoice(deployment, effective.voice)
        if (!deployment.speech || voice === undefined) return unsupportedBy(deployment)
        const outcome = await deployment.speech.synthesize(spokenRequest(effective, voice), options)
        const usage = { input_characters: characters }
        if (outcome.outcome === 'failed') return withUsage(outcome, usage)
        const { format = 'mp3' } = outcome
        const converted =
          format === 'mp3'
            ? { outcome: 'converted' as const, mp3: outcome.audio }
            : await convert(outcome.audio, format, options.signal)
        if (converted.outcome === 'failed')
          return emptyOutput(`the speech could not be converted from ${format}: ${converted.reason}`, usage)
        const { mp3 } = converted
        const walk = walkFrames(mp3)
        if (walk.outcome !== 'mp3') return emptyOutput(`the speech is not an MP3: ${walk.found}`, usage)
        const product = {
          usage,
          media: { bytes: mp3, contentType: 'audio/mpeg', mediaClass: 'speech' as const },
          result: (stored: { url: string; expiresAt: Date }, createdAt: Date) =>
            speechResult({
              id: job.id,
              created: Math.floor(createdAt.getTime() / 1000),
              ...stored,
              bytes: mp3.length,
              durationMs: walk.durationMs,
              characters,
            }),
        }
        return { outcome: 'produced', product }
      },
    }
  },
})
