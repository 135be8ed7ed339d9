import type { CommandSpec } from '../command.js';
import { type ListOptions, listOptions, listRequests } from './list.js';

/** OP-8, of this workflow alone. */
export const userDeletionsList: CommandSpec<ListOptions> = {
  usage: 'list',
  summary: 'show training requests, newest first, and what each waits for',
  options: listOptions(),
  examples: ['list --status retry_wait'],
  run: (_args, options, context) => listRequests('user-deletion', options, context),
};
