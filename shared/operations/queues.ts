/** The queues of upstream work: one for each kind, so that slow kinds never delay the others. */
export const OPERATION_QUEUES = ['text', 'images', 'speech', 'transcriptions'] as const

export type OperationQueue = (typeof OPERATION_QUEUES)[number]
