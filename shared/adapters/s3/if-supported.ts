import { statusOf } from './store-failure.ts'

/** Returns `unsupported` when the store does not know the call. */
export async function ifSupported(work: Promise<unknown>): Promise<'done' | 'unsupported'> {
  try {
    await work
    return 'done'
  } catch (error) {
    const status = statusOf(error)
    const isUnknown = error instanceof Error && /^(NotImplemented|AccessControlListNotSupported)$/.test(error.name)
    if (status === 501 || status === 405 || isUnknown) return 'unsupported'
    throw error
  }
}
