import type { AnyOperation } from '#shared/operations/registry.ts'

/** Returns the URL that a challenge names as the resource to be paid for. */
export function resourceUrl({ path }: Pick<AnyOperation, 'path'>, publicBaseUrl: string): string {
  return new URL(path, publicBaseUrl).href
}
