import { inject } from 'vitest'

/** Requests a shared service from vitest's main process (`shared-services.ts`). */
export async function askSharedServices<T>(path: string): Promise<T> {
  const answer = await fetch(`${inject('sharedServicesUrl')}${path}`)
  if (!answer.ok) throw new Error(`a shared service did not start: ${await answer.text()}`)
  return (await answer.json()) as T
}
