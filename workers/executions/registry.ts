import { type OperationId, operationById } from '#shared/operations/registry.ts'
import type { ConvertToMp3 } from './convert-to-mp3.ts'
import type { Execution } from './execution.ts'
import { imageGeneration } from './image.ts'
import type { RemoteImages } from './remote-images.ts'
import { speechSynthesis } from './speech.ts'
import { chatCompletion, message } from './text.ts'
import { transcription } from './transcription.ts'

/** How each operation is carried out. An operation without an execution does not compile. */
export type Executions = Readonly<Record<OperationId, Execution>>

/** Creates the lookup of executions by operation id. The lookup throws for an unknown id. */
export function createExecutions(
  remoteImages: RemoteImages,
  convertToMp3: ConvertToMp3,
): (operationId: string) => Execution {
  const executions: Executions = {
    createChatCompletion: chatCompletion(remoteImages),
    createMessage: message(remoteImages),
    createImageGeneration: imageGeneration,
    createSpeech: speechSynthesis(convertToMp3),
    createTranscription: transcription,
  }
  return (operationId) => executions[operationById(operationId).id]
}
