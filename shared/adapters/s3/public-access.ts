import {
  DeletePublicAccessBlockCommand,
  GetObjectCommand,
  GetPublicAccessBlockCommand,
  ListObjectsV2Command,
  type PublicAccessBlockConfiguration,
  PutBucketAclCommand,
  PutPublicAccessBlockCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { ifSupported } from './if-supported.ts'

const REQUEST_TIMEOUT_MS = 10_000

const EVERYTHING = {
  BlockPublicAcls: true,
  IgnorePublicAcls: true,
  BlockPublicPolicy: true,
  RestrictPublicBuckets: true,
} as const satisfies PublicAccessBlockConfiguration

/**
 * Ceph's gateway (16.2) refuses every put, private ones too, while BlockPublicAcls is set. Without it, public ACLs can be set,
 * but have no effect.
 */
const EXCEPT_ACLS = { ...EVERYTHING, BlockPublicAcls: false } as const satisfies PublicAccessBlockConfiguration

/** `no block` and `except BlockPublicAcls`: the store refuses writes under a stricter one. */
export type PublicAccessBlock = 'done' | 'unsupported' | 'except BlockPublicAcls' | 'no block'

/**
 * Blocks public access to the bucket as far as the store still accepts puts, which `canPut` tries. Where it must leave
 * something out, the bucket's ACL is made private.
 */
export async function blockPublicAccess(
  client: S3Client,
  Bucket: string,
  canPut: () => Promise<boolean>,
): Promise<PublicAccessBlock> {
  const before = await readBlock(client, Bucket)
  const couldPut = await canPut()
  // Repeating the trial would refuse the uploads of running processes meanwhile.
  if (couldPut && isEqual(before, EXCEPT_ACLS)) return 'except BlockPublicAcls'
  const setBlock = (block: PublicAccessBlockConfiguration) =>
    client.send(new PutPublicAccessBlockCommand({ Bucket, PublicAccessBlockConfiguration: block }))
  const isKept = async () => isEqual(await readBlock(client, Bucket), EVERYTHING)
  if ((await ifSupported(setBlock(EVERYTHING), isKept)) === 'unsupported') return 'unsupported'
  // Puts that were refused without any block lack a permission, and a weaker block would not help them.
  if ((await canPut()) || !(couldPut || before?.BlockPublicAcls)) return 'done'
  await ifSupported(client.send(new PutBucketAclCommand({ Bucket, ACL: 'private' })))
  await setBlock(EXCEPT_ACLS)
  if (await canPut()) return 'except BlockPublicAcls'
  await client.send(new DeletePublicAccessBlockCommand({ Bucket }))
  if (await canPut()) return 'no block'
  await setBlock(EVERYTHING)
  return 'done'
}

async function readBlock(client: S3Client, Bucket: string): Promise<PublicAccessBlockConfiguration | undefined> {
  // A bucket without a block is an error too.
  const answer = await client.send(new GetPublicAccessBlockCommand({ Bucket })).catch(() => null)
  return answer?.PublicAccessBlockConfiguration
}

function isEqual(block: PublicAccessBlockConfiguration | undefined, other: PublicAccessBlockConfiguration): boolean {
  return (
    block !== undefined &&
    Object.entries(other).every(([name, value]) => block[name as keyof PublicAccessBlockConfiguration] === value)
  )
}

/** Returns whether somebody without keys can read the object or list the bucket. */
export async function isPublic(client: S3Client, Bucket: string, Key: string): Promise<boolean> {
  const links = await Promise.all([
    getSignedUrl(client, new GetObjectCommand({ Bucket, Key })),
    getSignedUrl(client, new ListObjectsV2Command({ Bucket, Prefix: Key })),
  ])
  const statuses = await Promise.all(links.map((link) => fetchStatus(withoutSignature(link))))
  return statuses.includes(200)
}

/** Returns the address alone: everything that signs it is in parameters with this prefix. */
function withoutSignature(link: string): URL {
  const url = new URL(link)
  const kept = [...url.searchParams].filter(([name]) => !/^x-amz-/i.test(name))
  url.search = new URLSearchParams(kept).toString()
  return url
}

async function fetchStatus(url: URL): Promise<number> {
  const answer = await fetch(url, { redirect: 'manual', signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
  await answer.body?.cancel()
  return answer.status
}
