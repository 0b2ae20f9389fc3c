/** Checkpoints of a session before each user message, so that a rewind of a conversation rewinds its files. */
export { rewind, type RewindOptions, type RewindResult } from './rewind.js'
export { checkMessageId, TurnCheckpoints } from './turn-checkpoints.js'
export { turnMarks } from './turn-marks.js'
