"""Plays the rounds that the service would play with a cluster, on virtual time: it grows, removes, and rests.

    played = play(cluster, settings, start=UnixTime(...))      # `engine`
    played.now, played.end                                     # the cluster before and after, as `Cluster` values

The plans and the choice of batches are the service's own. Around them are models: of kube-scheduler (`scheduler_model`), of
controllers, kubelets and machines (`virtual_cluster`), and of the course of removals (`virtual_drains`). Time, settings and
cluster are arguments, and nothing is random: the same arguments give the same rounds.
"""
