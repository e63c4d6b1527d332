import type { ArchiveStore } from '#shared/adapters/postgres/archive/archive-store.ts'
import { DamagedObject, unpackObject } from '#shared/archive/archived-object.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'

/** Reads every archived object. Returns how many there are, and what is wrong with those that are not as archived. */
export async function verifyObjects(
  store: Pick<ArchiveStore, 'listObjects'>,
  objects: Pick<ObjectStore, 'get'>,
): Promise<{ readonly objects: number; readonly damaged: readonly string[] }> {
  let count = 0
  const damaged: string[] = []
  for await (const object of store.listObjects()) {
    count += 1
    try {
      await unpackObject(object, await objects.get(object.key))
    } catch (error) {
      if (!(error instanceof DamagedObject)) throw error
      damaged.push(error.message)
    }
  }
  return { objects: count, damaged }
}
