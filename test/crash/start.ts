import { EngineError, type Session } from '../../src/index.js'
import { outcomeOf, runStep, type Outcome } from '../model/run-step.js'
import { forkTag, type Step } from './protocol.js'

/** Makes the call before returning, so that calls keep their order. */
export function start(session: Session, step: Step): Promise<{ outcome: Outcome; fork?: Session }> {
  if (step.op === 'checkpoint') return settle(session.checkpoint({ checkpointLabel: step.label }))
  if (step.op === 'restore') return settle(session.restore({ checkpointLabel: step.label }))
  if (step.op === 'deleteCheckpoint') return settle(session.deleteCheckpoint({ checkpointLabel: step.label }))
  if (step.op !== 'fork') return settle(runStep(session, step))
  const checkpointLabel = step.label ?? ''
  const forked = session.fork({ checkpointLabel, newTags: { [forkTag]: step.tag } })
  return forked.then((fork) => ({ outcome: 'ok', fork }))
}

/** Throws the errors of the store. */
async function settle(call: Promise<unknown>): Promise<{ outcome: Outcome }> {
  try {
    await call
    return { outcome: 'ok' }
  } catch (error) {
    if (error instanceof EngineError && error.reason.startsWith('STORE_')) throw error
    return { outcome: await outcomeOf(Promise.reject(error)) }
  }
}
