"""Names that somebody else calls, or that are there to be read: `vulture` (in `make check`) takes them for used.

A line is a name and who uses it. Whatever else nothing uses is to be removed, not listed here.
"""

_.list_commands  # click
_.get_command  # click
_.ignore_aliases  # yaml
_.model_config  # pydantic
_.__test__  # pytest
_.service  # gRPC
_.daemon_threads  # socketserver
_.request_queue_size  # socketserver
_.block_on_close  # socketserver
_.address_family  # socketserver
_.handle_error  # socketserver
_.server_version  # http.server
_.sys_version  # http.server
_.log_message  # http.server
_.reducer_override  # pickle
set_to_none  # torch: an argument of zero_grad
_._step_supports_amp_scaling  # torch
_._opt_called  # torch: schedulers read it
param_group  # torch: an argument of add_param_group
_.__call__  # of a protocol that callables fit
core  # pydantic
_._as_before  # pydantic
_.compress_type  # zipfile
_.external_attr  # zipfile
_.KIND  # the registry of kinds
make_owned  # a file of bench/sabotage names it
toys  # a fixture that a test only needs to have
_.total_steps  # a field of a message: it is on the wire
_.task_id  # Flower, in a benchmark
_.send_and_receive  # Flower
_.configure_fit  # Flower
client_manager  # Flower
_.aggregate_fit  # Flower
driver  # bench.ray: started by name in another process
_.handle_starttag  # html.parser
on_page_markdown  # mkdocs
on_post_template  # mkdocs
_.handle_endtag  # html.parser
_.handle_data  # html.parser
_.get_extra_state  # torch
_.set_extra_state  # torch
_.make_nothing  # a test: something that a task's module has, and that is no maker
return_X_y  # scikit-learn, in a test that replaces its function
this  # a test that replaces a method
descriptor  # a test that replaces os.fsync
