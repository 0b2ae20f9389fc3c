/** The names that the examples of doc comments may use without declaring them. Compiled together with the examples. */
import { makeWorld as makePageWorld, type World } from './docs-world.js'

/** That of a page, without the checkpoint, which many examples create. */
export async function makeWorld(directory: string): Promise<World> {
  const world = await makePageWorld(directory)
  await world.session.deleteCheckpoint({ checkpointLabel: 'before' })
  return world
}
