import type { Execution } from './execution.ts'
import type { ImageFetcher } from './fetch-remote-image.ts'
import { imageGeneration } from './image.ts'
import { speechSynthesis } from './speech.ts'
import { chatCompletion, message } from './text.ts'
import { transcription } from './transcription.ts'

/** How each operation is carried out, by its id. Throws when a stored job names an operation that this build does not have. */
export function createExecutions(imageFetcher: ImageFetcher): (operationId: string) => Execution {
  const executions: Record<string, Execution> = {
    createChatCompletion: chatCompletion(imageFetcher),
    createMessage: message(imageFetcher),
    createImageGeneration: imageGeneration,
    createSpeech: speechSynthesis,
    createTranscription: transcription,
  }
  return (operationId) => {
    const execution = executions[operationId]
    if (!execution) throw new Error(`unknown operation ${operationId}`)
    return execution
  }
}
