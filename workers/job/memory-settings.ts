import { z } from 'zod'

export const memorySettings = {
  /**
   * What the jobs of a worker may hold in memory, in MiB: uploads, requests, images and answers. The minimum is what the
   * largest request needs: 40 MiB of text and images, and 20 MiB of images that it references by URL.
   */
  MAXIMUM_JOB_MEGABYTES: z.coerce.number().int().min(320).default(512),
}
