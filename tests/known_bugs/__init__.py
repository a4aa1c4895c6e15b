"""Inputs that broke comparable caches, and where each is a test of ours.

| input | test |
|---|---|
| an update removes a label | contract: removed_label_stops_matching, label_sets_follow_each_of_many_updates |
| values with `_ % ' " . -` | contract: values_are_compared_exactly, namespaces_are_compared_exactly |
| numbers as text, beyond 64 bits | contract: order_is_that_of_whole_numbers |
| an index function repeats a value | contract: repeated_values_count_once |
| `k in ()` | contract: selector_gives_exactly_what_matches |
| 70 requirements; 40,000 values; 1,500 namespaces | contract: selector_may_have_many_requirements, set_may_have_many_values, many_namespaces_may_be_asked_at_once |
| unknown index, index added after data, index name twice | contract: unknown_index_is_an_error_for_all_but_its_values, function_added_after_data_indexes_what_is_there, name_in_use_adds_none_of_the_functions |
| tombstones, absent keys | contract: tombstone_removes_the_object, delete_of_an_absent_key_only_moves_the_resource_version |
| replace: exact, new uid, empty | contract: replace_makes_the_content_exact, replace_with_a_new_uid_of_the_same_name_gives_the_new_object, replace_with_nothing_empties_the_store |
| writers and readers at once | here: writers_and_readers_of_one_store_never_meet_a_lock, twenty_stores_of_one_file_may_write_at_once, processes_may_share_a_file; contract: reader_sees_no_half_of_a_batch |
| a result that is read half-way | here: half_read_result_does_not_let_the_log_grow |
| a caller changes a returned object | contract: changing_an_object_cannot_corrupt_the_indexes, mutation_detector_finds_a_changed_object |
| opened twice; closed while others read; closed twice | here: second_store_of_a_file_sees_what_the_first_writes; contract: reader_gets_all_or_an_error_while_the_store_closes, closing_twice_is_harmless |
| many updates and selector shapes | here: memory_stays_flat_over_updates_and_shapes |
| `{}` and absent, `[]` and null, large integers, non-ASCII text | contract: object_comes_back_equal, empty_labels_stay_as_they_are |
| resourceVersions that are no numbers | contract: resource_version_is_taken_from_the_last_write |
| negative selectors in a large cluster | contract: negative_selector_costs_its_namespace_only |
| same name in two namespaces; dots and slashes; empty value; letter case | contract: same_name_in_two_namespaces_is_two_objects, keys_with_dots_and_slashes_are_kept_apart, empty_value_is_no_missing_key, letter_case_tells_keys_values_and_namespaces_apart |
| NUL and lone surrogates | contract: object_with_bad_metadata_is_refused, labels_that_no_object_can_have_match_nothing, delete_of_an_odd_key_removes_no_other_object |
| a selector that is null, and one that is `{}` | contract: gives_exactly_the_objects_whose_selector_matches |
| 1,000 services in a namespace, one event of a pod | unit: question_looks_at_few_selectors_of_many; contract: many_objects_with_many_selectors |
| an index in one process, written by another | here: what_selects_is_noticed_when_another_process_writes_it; property: selecting_shared |
| disk full, read-only, cut short, not a database, killed | here: full_disk_is_an_error_and_nothing_is_half_written and those after it; tests/migration |
"""  # noqa: E501 - table rows cannot be broken
