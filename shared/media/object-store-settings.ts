import { z } from 'zod'

/** Settings of the object store, the same for API, workers and `infra/commands/bucket-init`. */
export const objectStoreSettings = {
  /** A folder that API and workers share. Set either this or S3_BUCKET. */
  OBJECT_STORE_DIRECTORY: z.string().min(1).optional(),
  S3_BUCKET: z.string().min(3).max(63).optional(),
  /** Default: AWS. */
  S3_ENDPOINT: z.url().optional(),
  S3_REGION: z.string().min(1).default('us-east-1'),
  /** Set both or neither. Without them the AWS SDK's default chain looks for credentials. */
  S3_ACCESS_KEY_ID: z.string().min(1).optional(),
  S3_SECRET_ACCESS_KEY: z.string().min(1).optional(),
  /** Most stores other than AWS expect the bucket in the path. */
  S3_FORCE_PATH_STYLE: z.stringbool().default(false),
}

const settingsSchema = z.object(objectStoreSettings)
export type ObjectStoreSettings = Readonly<z.infer<typeof settingsSchema>>

export type S3Settings = ObjectStoreSettings & { readonly S3_BUCKET: string }

interface Check {
  readonly value: ObjectStoreSettings
  readonly issues: { code: 'custom'; path: string[]; message: string; input: undefined }[] | unknown[]
}

/** Checks a settings schema (`.check`) for exactly one store, completely described, never a silent default. */
export function checkObjectStore({ value, issues }: Check): void {
  const reject = (setting: string, message: string) =>
    issues.push({ code: 'custom', path: [setting], message, input: undefined })
  if (value.OBJECT_STORE_DIRECTORY === undefined && value.S3_BUCKET === undefined)
    reject('OBJECT_STORE_DIRECTORY', 'set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
  if (value.OBJECT_STORE_DIRECTORY !== undefined && value.S3_BUCKET !== undefined)
    reject('OBJECT_STORE_DIRECTORY', 'set only one of OBJECT_STORE_DIRECTORY and S3_BUCKET')
  if ((value.S3_ACCESS_KEY_ID === undefined) !== (value.S3_SECRET_ACCESS_KEY === undefined))
    reject('S3_ACCESS_KEY_ID', 'set both S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, or neither')
  if (value.S3_BUCKET === undefined && value.S3_ENDPOINT !== undefined)
    reject('S3_BUCKET', 'S3_ENDPOINT is set, but no S3_BUCKET')
}
