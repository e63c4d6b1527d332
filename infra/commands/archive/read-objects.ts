import { receiptIdOf, transactionHashOf } from '#shared/archive/archived-line.ts'
import { DamagedObject, type RecordedObject, unpackObject } from '#shared/archive/archived-object.ts'
import type { ArchivedCall, ArchiveStore } from '#shared/ledger/archive/archive-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'

/** Reads the archived documents of a call, and its transactions. Throws `DamagedObject`. */
export async function readCall(
  objects: Pick<ObjectStore, 'get'>,
  { receiptId, object, transactions }: ArchivedCall,
): Promise<object> {
  const read = async (from: RecordedObject, isIt: (line: string) => boolean) => {
    const line = (await unpackObject(from, await objects.get(from.key))).find(isIt)
    if (line === undefined) throw new DamagedObject(`${from.key} lacks a document of the receipt ${receiptId}`)
    return JSON.parse(line) as object
  }
  const call = await read(object, (line) => receiptIdOf(line) === receiptId)
  const signed = transactions.map(({ hash, object: of }) => read(of, (line) => transactionHashOf(line) === hash))
  return { ...call, transactions: await Promise.all(signed) }
}

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
