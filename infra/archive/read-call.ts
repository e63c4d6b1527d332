import type { ArchivedCall } from '#shared/adapters/postgres/archive/archive-store.ts'
import { receiptIdOf, transactionHashOf } from '#shared/archive/archived-line.ts'
import { DamagedObject, type RecordedObject, unpackObject } from '#shared/archive/archived-object.ts'
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
