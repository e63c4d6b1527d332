import {
  type Category,
  findModel,
  findVoice,
  type ListAccess,
  type Model,
  UnknownName,
  voicesOf,
} from '../../../requests/service-lists.ts'
import type { VoiceList } from '../../../wire/schemas.ts'
import { UsageError } from '../../exit-codes.ts'
import type { CommandContext } from '../../run.ts'
import { requireUrl } from '../../settings.ts'
import { noteWait } from './notes.ts'

/**
 * Returns the model that was asked for, or the first one of the category that the service lists. Throws a `UsageError`
 * that suggests similar names when there is no such model.
 */
export async function chooseModel(
  context: CommandContext,
  category: Category,
  asked: string | undefined,
): Promise<Model> {
  return await findModel(listAccess(context), category, asked).catch(throwUsage)
}

/** The same for a call that is paid for. A wallet that cannot be opened is said before the service is waited for. */
export async function choosePaidModel(...asked: Parameters<typeof chooseModel>): Promise<Model> {
  const [context] = asked
  await context.farebox()
  return await chooseModel(...asked)
}

/** Returns the voices of a model. */
export async function listVoices(context: CommandContext, model: string): Promise<VoiceList['data']> {
  return await voicesOf(listAccess(context), model)
}

/** Throws a `UsageError` that suggests similar names unless the model has the voice. */
export async function requireVoice(context: CommandContext, model: string, voice: string): Promise<void> {
  await findVoice(listAccess(context), model, voice).catch(throwUsage)
}

function listAccess({ settings, signal, output }: CommandContext): ListAccess {
  return { baseUrl: requireUrl(settings), signal, onWait: noteWait(output) }
}

function throwUsage(error: unknown): never {
  throw error instanceof UnknownName ? new UsageError(error.message) : error
}
